"""Stream a prompt's KV chunks to an engine: while one is decoded, the next one is transferred."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Self

import structlog

from flightllm.errors import BitstreamError, FlightLLMError
from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.codec.finished import wait_until_decoded
from flightllm.kvcache.stream.chunk_transfer import Arrived, FetchRequest
from flightllm.kvcache.stream.items import FetchFigures, Loaded, Reason, Recompute
from flightllm.kvcache.stream.prefetch import Prefetcher
from flightllm.kvcache.stream.source import ChunkSource

if TYPE_CHECKING:
    import torch

_log = structlog.get_logger(__name__)


class ChunkFetch:
    """An iterator over the chunks in order, and then one `Recompute` for the rest if some chunks did not arrive.

    For an engine that can return, a `Recompute` can also come between chunks: the engine computes these tokens before
    it takes the next item. Meanwhile the next chunk is transferred.

    A failure of the store raises nothing. Close a fetch that is not iterated to its end. Not thread-safe.
    """

    def __init__(
        self,
        chunks: Sequence[Chunk],
        source: ChunkSource,
        have: int,
        slo: float | None,
        elapsed: float,
        limit: float | None,
        *,
        returns: bool,
    ) -> None:
        self._source = source
        self._request = FetchRequest(chunks, have, time.monotonic() - elapsed, slo, limit, returns)
        self._have, self._stop = have, chunks[-1].stop if chunks else have
        self._counts: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._waited = self._decoding = 0.0
        self._damaged_bytes = 0
        self._prefetcher: Prefetcher | None = None
        self._text_tokens = 0
        self._reason: Reason | None = None
        self._items = self._fetched()

    @property
    def figures(self) -> FetchFigures:
        """Return the figures of the fetch so far."""
        prefetcher = self._prefetcher
        return FetchFigures(
            chunks=dict(self._counts),
            bytes=dict(self._bytes),
            wasted_bytes=self._damaged_bytes + (prefetcher.wasted_bytes if prefetcher else 0),
            given_up=prefetcher.given_up if prefetcher else 0,
            text_tokens=self._text_tokens,
            reason=self._reason,
            lookup_seconds=prefetcher.lookup_seconds if prefetcher else 0.0,
            waited_seconds=self._waited,
            decode_seconds=self._decoding,
        )

    def close(self) -> None:
        """End the transfers under way, unless other requests wait for them too. Idempotent."""
        self._items.close()

    def __iter__(self) -> Self:
        """Return the fetch."""
        return self

    def __next__(self) -> Loaded | Recompute:
        """Wait for the next chunk, and return it."""
        return next(self._items)

    def __enter__(self) -> Self:
        """Return the fetch."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the fetch."""
        self.close()

    def _fetched(self) -> Generator[Loaded | Recompute, None, None]:
        if self._stop <= self._have:
            return
        self._prefetcher = prefetcher = Prefetcher(self._request, self._source)
        reached = self._have
        try:
            while reached < self._stop:
                started = time.monotonic()
                item = prefetcher.take()
                self._waited += time.monotonic() - started
                loaded = item if isinstance(item, Recompute) else self._decoded(item)
                if isinstance(loaded, Recompute):
                    self._text_tokens += loaded.stop - loaded.start
                    self._reason = loaded.reason
                    if loaded.stop >= self._stop:
                        prefetcher.close()
                reached = loaded.stop if isinstance(loaded, Recompute) else loaded.chunk.stop
                yield loaded
        finally:
            prefetcher.close()

    def _decoded(self, arrived: Arrived) -> Loaded | Recompute:
        """Return a chunk; if its bitstream is damaged, return a `Recompute` of the chunk.

        If the engine cannot return, all after the chunk must be computed too.
        """
        chunk, codec, size = arrived.chunk, arrived.codec, len(arrived.data)
        layers = self._timed(arrived)
        try:
            first = next(layers, None)
            if first is None or first.shape[1] != chunk.tokens:
                raise BitstreamError(
                    f"a KV chunk of {chunk.tokens} tokens came with {0 if first is None else first.shape[1]} tokens"
                )
        except FlightLLMError as error:
            stop = chunk.stop if self._request.returns else self._stop
            rest = Recompute(max(self._have, chunk.start), stop, "damaged")
            _log.warning("kv chunks are computed instead", reason="damaged", codec=codec, error=str(error))
            self._damaged_bytes += size
            return rest
        self._counts[codec] += 1
        self._bytes[codec] += size
        return Loaded(chunk, codec, chain((first,), layers))

    def _timed(self, arrived: Arrived) -> Generator[torch.Tensor, None, None]:
        """Decode layer by layer, and measure how long decoding takes."""
        seconds, tokens = 0.0, arrived.chunk.tokens
        layers = self._source.codecs[arrived.codec].layers(arrived.data, self._source.device)
        while True:
            started = time.monotonic()
            layer = next(layers, None)
            if layer is None:
                wait_until_decoded(self._source.device)
            spent = time.monotonic() - started
            seconds += spent
            self._decoding += spent
            if layer is None:
                break
            yield layer
        self._source.link.meter.decoded(arrived.codec, tokens, seconds, time.monotonic())


def fetch(
    chunks: Sequence[Chunk],
    source: ChunkSource,
    have: int = 0,
    *,
    slo_seconds: float | None = None,
    elapsed: float = 0.0,
    limit_seconds: float | None = None,
    returns: bool = False,
) -> ChunkFetch:
    """Stream the chunks of a prompt, of which the engine has the first `have` tokens.

    `chunks` are all chunks that can be useful, in order. The fetch transfers those that the store holds, one after the
    other, as the policy of `source` chooses.

    With `slo_seconds`, all chunks should be there within that time, of which `elapsed` seconds have passed. Chunks that
    have not arrived after `limit_seconds`, counted in the same way, must be computed. The fetch then stops waiting for
    the store.

    With `returns`, the engine can compute a chunk and then load the next one. vLLM cannot: it loads one range of tokens
    and computes all after it.
    """
    return ChunkFetch(chunks, source, have, slo_seconds, elapsed, limit_seconds, returns=returns)
