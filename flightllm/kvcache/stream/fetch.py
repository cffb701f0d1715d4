"""Stream a prompt's KV chunks to an engine: each is decoded while the next one travels."""

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
    """Where an engine's KV chunks come from, and how they are chosen; one for all its requests."""

    link: Link
    codecs: Mapping[str, Codec]
    """By name, those that can be decoded here; what is held in others is not asked for."""
    policy: Policy
    prefill: Prefill
    device: str = "cpu"
    """Where layers are decoded to."""


class Fetch:
    """An iterator of chunks in order; then, unless all came, of one `Recompute` for the rest.

    Never raises for what a store does or holds. Close it where it is not iterated to its end. One thread at a time.
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
        """Return what was done until now."""
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
        """End what is under way, unless others wait for it too. Idempotent."""
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
        """End what is under way."""
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
        """Return a chunk whose bitstream was found to be sound; else that it is to be computed, with all after it."""
        chunk, codec, size = arrived.chunk, arrived.codec, len(arrived.data)
        layers = self._timed(arrived)
        try:
            first = next(layers, None)
            if first is None or first.shape[1] != chunk.tokens:
                raise BitstreamError(f"a KV chunk of {chunk.tokens} tokens came with another number of them")
        except FlightLLMError as error:
            rest = Recompute(max(self._have, chunk.start), self._stop, "damaged")
            _log.warning("kv chunks are computed instead", reason="damaged", codec=codec, error=str(error))
            self._damaged_bytes += size
            return rest
        self._counts[codec] += 1
        self._bytes[codec] += size
        return Loaded(chunk, codec, chain((first,), layers))

    def _timed(self, arrived: Arrived) -> Generator[torch.Tensor, None, None]:
        """Decode layer by layer, and learn how long that takes."""
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
    """Stream chunks of a prompt that has its first `have` tokens, as `source` chooses.

    `chunks` are all that may be of use, by where they end; those come that are held and follow one another. With
    `slo_seconds` all is to be there within that time, of which `elapsed` have passed already. Chunks that have not
    come after `limit_seconds`, counted in the same way, are to be computed: a store that hangs is waited for no longer.
    """
    return Fetch(chunks, source, have, slo_seconds, elapsed, limit_seconds)
