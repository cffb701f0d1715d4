"""Stream a prompt's KV chunks to an engine: each is decoded while the next one is transferred."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Self

import structlog

from flightllm.errors import BitstreamError, FlightLLMError
from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.codec.base import Codec
from flightllm.kvcache.stream.ahead import Ahead, Arrived
from flightllm.kvcache.stream.base import Policy
from flightllm.kvcache.stream.items import FetchFigures, Loaded, Recompute
from flightllm.kvcache.stream.link import Link
from flightllm.kvcache.stream.prefill import Prefill

if TYPE_CHECKING:
    import torch

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Source:
    """The link, codecs and policy of an engine's loads; all requests of the engine share it."""

    link: Link
    codecs: Mapping[str, Codec]
    """The codecs that can be decoded here, by name; bitstreams of other codecs are not fetched."""
    policy: Policy
    prefill: Prefill
    device: str = "cpu"
    """The device of decoded layers."""


class Fetch:
    """An iterator over chunks in order, then a `Recompute` for the rest if not all chunks came.

    It never raises an error of a store or for damaged data. The caller must close it unless it is iterated to its end.
    One thread at a time can use it.
    """

    def __init__(
        self, chunks: Sequence[Chunk], source: Source, have: int, slo: float | None, elapsed: float, limit: float | None
    ) -> None:
        self._chunks = chunks
        self._source = source
        self._have, self._stop = have, chunks[-1].stop if chunks else have
        self._slo, self._limit = slo, limit
        self._started = time.monotonic() - elapsed
        self._counts: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._waited = self._decoding = 0.0
        self._damaged_bytes = 0
        self._ahead: Ahead | None = None
        self._end: Recompute | None = None
        self._items = self._fetched()

    @property
    def figures(self) -> FetchFigures:
        """Return the figures so far."""
        end, ahead = self._end, self._ahead
        return FetchFigures(
            chunks=dict(self._counts),
            bytes=dict(self._bytes),
            wasted_bytes=self._damaged_bytes + (ahead.wasted_bytes if ahead else 0),
            given_up=ahead.given_up if ahead else 0,
            text_tokens=end.stop - end.start if end else 0,
            reason=end.reason if end else None,
            lookup_seconds=ahead.lookup_seconds if ahead else 0.0,
            waited_seconds=self._waited,
            decode_seconds=self._decoding,
        )

    def close(self) -> None:
        """Leave running transfers; they end unless other requests wait for them. Idempotent."""
        self._items.close()

    def __iter__(self) -> Self:
        """Return itself."""
        return self

    def __next__(self) -> Loaded | Recompute:
        """Wait for the next chunk, and return it."""
        return next(self._items)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave running transfers."""
        self.close()

    def _fetched(self) -> Generator[Loaded | Recompute, None, None]:
        if self._stop <= self._have:
            return
        self._ahead = ahead = Ahead(self._chunks, self._source, self._have, self._slo, self._started, self._limit)
        reached = self._have
        try:
            while reached < self._stop:
                started = time.monotonic()
                item = ahead.take()
                self._waited += time.monotonic() - started
                loaded = item if isinstance(item, Recompute) else self._decoded(item)
                if isinstance(loaded, Recompute):
                    self._end = loaded
                    ahead.close()
                    yield loaded
                    return
                yield loaded
                reached = loaded.chunk.stop
        finally:
            ahead.close()

    def _decoded(self, arrived: Arrived) -> Loaded | Recompute:
        """Return the chunk if its bitstream is valid; else a `Recompute` for it and all later tokens."""
        chunk, codec, size = arrived.chunk, arrived.codec, len(arrived.data)
        layers = self._timed(arrived)
        try:
            first = next(layers, None)
            if first is None or first.shape[1] != chunk.tokens:
                raise BitstreamError(
                    f"the bitstream of a KV chunk of {chunk.tokens} tokens has another number of tokens"
                )
        except FlightLLMError as error:
            rest = Recompute(max(self._have, chunk.start), self._stop, "damaged")
            _log.warning("kv chunks are computed instead", reason="damaged", codec=codec, error=str(error))
            self._damaged_bytes += size
            return rest
        self._counts[codec] += 1
        self._bytes[codec] += size
        return Loaded(chunk, codec, chain((first,), layers))

    def _timed(self, arrived: Arrived) -> Generator[torch.Tensor, None, None]:
        """Decode layer by layer, and measure the time."""
        seconds, tokens = 0.0, arrived.chunk.tokens
        layers = self._source.codecs[arrived.codec].layers(arrived.data, self._source.device)
        while True:
            started = time.monotonic()
            layer = next(layers, None)
            spent = time.monotonic() - started
            seconds += spent
            self._decoding += spent
            if layer is None:
                break
            yield layer
        self._source.link.meter.decoded(arrived.codec, tokens, seconds, time.monotonic())


def fetch(
    chunks: Sequence[Chunk],
    source: Source,
    have: int = 0,
    *,
    slo_seconds: float | None = None,
    elapsed: float = 0.0,
    limit_seconds: float | None = None,
) -> Fetch:
    """Stream the chunks of a prompt whose first `have` tokens are available, as `source` chooses.

    `chunks` are all usable chunks, sorted by their ends; the fetch takes held chunks that follow each other.
    `slo_seconds` is the time limit for the whole fetch, of which `elapsed` seconds have passed. Chunks that have not
    come after `limit_seconds` (with the same start) are computed, so a hanging store cannot block the engine.
    """
    return Fetch(chunks, source, have, slo_seconds, elapsed, limit_seconds)
