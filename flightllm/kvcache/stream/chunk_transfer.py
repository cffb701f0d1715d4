"""Transfer one chunk: choose its codec, watch the transfer, and cancel it if another choice is faster."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from flightllm.errors import NotFoundError
from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.stream.base import TEXT, TEXT_CHUNK, ChunkCosts, HeldChunk, Situation
from flightllm.kvcache.stream.items import Reason, Recompute
from flightllm.kvcache.stream.source import ChunkSource
from flightllm.kvcache.stream.transfer import Transfer

_LOOK_SECONDS: Final = 0.02
"""How often the policy is asked whether to go on with a transfer."""


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """The chunks that a request of the engine needs, and its times. Times are those of `time.monotonic`."""

    chunks: Sequence[Chunk]
    have: int
    """The engine already has the tokens before this position."""
    started: float
    slo: float | None
    """The seconds from `started` within which all chunks should arrive; None: as soon as possible."""
    limit: float | None
    """The seconds from `started` after which the fetch stops waiting; None: no limit."""
    returns: bool = False
    """Whether the engine can compute a chunk and then load the next one."""

    @property
    def stop(self) -> int:
        """Return where the last chunk ends."""
        return self.chunks[-1].stop

    def seconds_left(self) -> float:
        """Return the seconds until the limit."""
        return inf if self.limit is None else max(0.0, self.started + self.limit - time.monotonic())


@dataclass(frozen=True, slots=True)
class Arrived:
    """A chunk's bitstream."""

    chunk: Chunk
    codec: str
    data: memoryview


class ChunkTransfers:
    """Transfer chunks one by one, as the policy decides. One thread uses it.

    Example: the policy chooses `int8`, and after a second 1 of 4 MB has arrived. The policy then finds that computing
    is faster. The transfer is cancelled, 1 MB is wasted, and `bring` returns `"chosen"`: compute the rest.
    """

    def __init__(
        self, source: ChunkSource, request: FetchRequest, decoded_at: Callable[[], float], closed: Callable[[], bool]
    ) -> None:
        """Create it.

        `decoded_at` returns the time at which the last arrived chunk is decoded. Every transfer ends once `closed()` is
        true.
        """
        self._source = source
        self._link = source.link
        self._request = request
        self._decoded_at = decoded_at
        self._closed = closed
        self.costs = ChunkCosts(source.prefill, self._decode_seconds)
        self.given_up = 0
        """The number of transfers that were cancelled because another choice was faster."""
        self.wasted_bytes = 0
        """The bytes that these transfers received."""

    def bring(self, route: Sequence[HeldChunk]) -> Arrived | Recompute | Reason | None:
        """Return the first chunk of a route, or an order to compute only this chunk; None once closed.

        If it returns a reason, the engine must compute the whole route.

        Raises:
            Exception: the store's own error, or `BitstreamError` if a bitstream has another size than expected.
        """
        held, later = route[0], route[1:]
        missing = not held.sizes
        while not self._closed():
            codec = self._source.policy.choose(self._situation([held, *later], self._link.transfers + 1))
            reason: Reason = "missing" if missing else "chosen"
            if codec == TEXT:
                return reason
            if codec == TEXT_CHUNK:
                return Recompute(max(self._request.have, held.chunk.start), held.chunk.stop, reason)
            transfer = self._link.transfer(held.chunk.key, codec, held.sizes[codec])
            try:
                if self._arrives(transfer, [held, *later], codec):
                    return Arrived(held.chunk, codec, transfer.result())
            except NotFoundError:  # the store has evicted it since the lookup
                missing = len(held.sizes) == 1
            held = held.without(codec)  # a cancelled transfer does not begin again
        return None

    def _arrives(self, transfer: Transfer, route: Sequence[HeldChunk], codec: str) -> bool:
        """Wait for the end of a transfer and return True, or cancel the transfer and return False."""
        while not transfer.wait(_LOOK_SECONDS):
            rest = route[0].sizes[codec] - transfer.received
            situation = self._situation(route, self._link.transfers)
            if self._closed():
                transfer.leave()
                return False
            if not self._source.policy.keeps(situation, codec, rest):
                transfer.leave()
                self.given_up += 1
                self.wasted_bytes += transfer.received
                return False
        return True

    def _situation(self, route: Sequence[HeldChunk], transfers: int) -> Situation:
        now, meter = time.monotonic(), self._link.meter
        return Situation(
            route,
            self.costs,
            throughput=meter.throughput(now),
            transfers=transfers,
            round_trip=meter.round_trip(now),
            elapsed=now - self._request.started,
            slo=self._request.slo,
            busy=max(0.0, self._decoded_at() - now),
            have=self._request.have,
            returns=self._request.returns,
        )

    def _decode_seconds(self, codec: str, tokens: int) -> float:
        return self._link.meter.decode_seconds(codec, tokens, time.monotonic())
