"""Fetch a prompt's chunks in a thread, one chunk ahead of the engine that decodes them."""

import threading
import time
from typing import Final

import structlog

from flightllm.errors import BitstreamError, StoreUnavailableError
from flightllm.kvcache.stream.chunk_transfer import Arrived, ChunkTransfers, FetchRequest
from flightllm.kvcache.stream.handover import Handover
from flightllm.kvcache.stream.items import Reason, Recompute
from flightllm.kvcache.stream.route import find_route, gap
from flightllm.kvcache.stream.source import ChunkSource

_LOOKUP_SECONDS: Final = 0.1
"""A healthy store answers a lookup within this time, even over a new connection."""

_log = structlog.get_logger(__name__)


class Prefetcher:
    """A thread that fetches one chunk ahead while the engine decodes another. Only one thread can take chunks.

    A failure of the store ends the prefetch. The failure is logged and not raised; the engine computes the rest.

    Example with three chunks, of which the store holds two:

    | thread `kv-ahead` | engine |
    |---|---|
    | lookup, then chunk 1 | `take` waits for chunk 1 |
    | chunk 2 | decodes chunk 1 |
    | nothing: chunk 2 waits | `take` returns chunk 2 |
    | | `take` returns `Recompute` for the third chunk |
    """

    def __init__(self, request: FetchRequest, source: ChunkSource) -> None:
        self._request = request
        self._source = source
        self._link = source.link
        self._compute_seconds = source.prefill(request.have, request.stop)
        """Seconds that the engine needs to compute all tokens."""
        self._route = [gap(request.have, request.stop)]
        """The chunks to fetch, in order, and a gap if the store lacks the rest. Before the lookup, the whole prompt is
        a gap."""
        self._taken = 0
        """Chunks of the route that the engine took, or computes."""
        self._decoded_at = 0.0
        self._handover = Handover[Arrived | Recompute]()
        self._transfers = ChunkTransfers(source, request, lambda: self._decoded_at, lambda: self._handover.closed)
        self.lookup_seconds = 0.0
        threading.Thread(target=self._run, name="kv-ahead", daemon=True).start()

    @property
    def given_up(self) -> int:
        """Return how many transfers were stopped because another codec or computing was faster."""
        return self._transfers.given_up

    @property
    def wasted_bytes(self) -> int:
        """Return the bytes that these transfers received."""
        return self._transfers.wasted_bytes

    def take(self) -> Arrived | Recompute:
        """Wait for the next chunk and return it, or return the tokens to compute.

        The caller must have decoded or computed the chunk that it took before.

        The wait for the lookup lasts as long as computing would take, and at least `_LOOKUP_SECONDS`. No wait exceeds
        the limit of the request.
        """
        self._decoded_at = 0.0
        if not self._handover.wait_open(min(max(self._compute_seconds, _LOOKUP_SECONDS), self._seconds_left())):
            return self._too_late("the KV store did not answer in time")
        item = self._handover.wait_item(self._seconds_left())
        if item is None:
            return self._too_late("the KV store did not send a chunk in time")
        self._taken += 1
        costs = self._transfers.costs
        # The thread reads this for its next choice, so it must be there before the thread goes on.
        self._decoded_at = time.monotonic() + (
            costs.decode(item.codec, item.chunk.tokens)
            if isinstance(item, Arrived)
            else costs.prefill(item.start, item.stop)
        )
        self._handover.taken()
        return item

    def close(self) -> None:
        """Fetch no more chunks. Idempotent."""
        self._handover.close()

    def _run(self) -> None:
        position = 0
        try:
            reason = self._why_not()
            if reason is not None:
                self._handover.give_last(self._rest(0, reason))
                return
            self._look_up()
            for position in range(len(self._route)):
                found = self._transfers.bring(self._route[position:])
                if isinstance(found, str):
                    self._handover.give_last(self._rest(position, found))
                    return
                if found is None or not self._handover.give(found):
                    return
        except Exception as error:  # noqa: BLE001 - an engine can always compute instead
            if self._handover.closed:
                return
            reason = "damaged" if isinstance(error, BitstreamError) else "store"
            self._handover.give_last(self._failed(position, reason, error))

    def _why_not(self) -> Reason | None:
        """Return the reason not to ask the store, or None to ask it."""
        if not self._link.up:
            return "store"
        round_trips = 2 * self._link.meter.round_trip(time.monotonic())  # the lookup, and the first chunk
        return "chosen" if self._compute_seconds <= round_trips else None

    def _look_up(self) -> None:
        started = time.monotonic()
        self._route = find_route(
            self._link, self._request.chunks, self._source.codecs, self._request.have, holes=self._request.returns
        )
        self.lookup_seconds = time.monotonic() - started
        self._handover.open()

    def _seconds_left(self) -> float:
        return min(self._request.seconds_left(), threading.TIMEOUT_MAX)

    def _too_late(self, what: str) -> Recompute:
        """Stop because the store is too slow; return the tokens to compute."""
        self.close()
        return self._failed(self._taken, "store", StoreUnavailableError(what))

    def _failed(self, position: int, reason: Reason, error: Exception) -> Recompute:
        """Log a failure; return the tokens to compute."""
        if reason == "store":
            self._link.failed()
        rest = self._rest(position, reason)
        _log.warning("kv chunks are computed instead", reason=reason, tokens=rest.stop - rest.start, error=str(error))
        return rest

    def _rest(self, position: int, reason: Reason) -> Recompute:
        """Return the tokens to compute: all from the chunk at `position` of the route."""
        start = max(self._request.have, self._route[position].chunk.start)
        return Recompute(start, self._request.stop, reason)
