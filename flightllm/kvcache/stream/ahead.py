"""Chooses and brings a prompt's chunks one after the other, one chunk ahead of who decodes them."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final

import structlog

from flightllm.errors import BitstreamError, NotFoundError, StoreUnavailableError
from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.prefixes import leading
from flightllm.kvcache.stream.base import TEXT, Costs, HeldChunk, Situation
from flightllm.kvcache.stream.items import Reason, Recompute
from flightllm.kvcache.stream.transfer import Transfer

if TYPE_CHECKING:
    from flightllm.kvcache.stream.fetch import Source

_LOOK_SECONDS: Final = 0.02
"""How often a transfer under way is held against what could be done instead."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Arrived:
    """A chunk's bitstream."""

    chunk: Chunk
    codec: str
    data: memoryview


_PATIENCE: Final = 0.1
"""Seconds in which any store that is well says what it holds, a first connection included."""


class Ahead:
    """A thread that brings the next chunk while one is decoded, and no further ones. One thread may take from it.

    Failures of the store end what it brings, and are logged; none is raised.
    """

    def __init__(
        self, chunks: Sequence[Chunk], source: Source, have: int, slo: float | None, started: float, limit: float | None
    ) -> None:
        self._chunks = chunks
        self._stop = chunks[-1].stop
        self._route: list[HeldChunk] = [_nothing(have, self._stop)]
        """What is to come, in order: chunks, and at the end what is held of none."""
        self._have = have
        self._source = source
        self._slo = slo
        self._started = started
        self._until = inf if limit is None else started + limit
        self._taken = 0
        self._text_seconds = source.prefill(have, self._stop)
        self._costs = Costs(source.prefill, self._decode_seconds)
        self._changed = threading.Condition()
        self._asking = True
        self._closed = False
        self._ready: Arrived | Recompute | None = None
        self._decoded_by = 0.0
        self.lookup_seconds = 0.0
        self.given_up = 0
        """Transfers given up because something else was sooner."""
        self.wasted_bytes = 0
        """What came of those."""
        threading.Thread(target=self._run, name="kv-ahead", daemon=True).start()

    def take(self) -> Arrived | Recompute:
        """Wait for the next chunk and return it, or the end. What was taken before counts as decoded.

        A store that does not even answer what it holds is waited for no longer than computing all would take, or a
        moment, and whatever it does no longer than the limit.
        """
        with self._changed:
            self._decoded_by = 0.0
            if not self._changed.wait_for(
                lambda: not self._asking, min(max(self._text_seconds, _PATIENCE), self._left())
            ):
                return self._late("the KV store did not answer in time")
            self._changed.wait_for(lambda: self._ready is not None, self._left())
            taken, self._ready = self._ready, None
            if taken is None:
                return self._late("what the KV store sends did not come in time")
            if isinstance(taken, Arrived):
                self._taken += 1
                self._decoded_by = time.monotonic() + self._costs.decode(taken.codec, taken.chunk.tokens)
            self._changed.notify_all()
            return taken

    def close(self) -> None:
        """Bring nothing more. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        position = 0
        try:
            reason = self._refrains()
            if reason is not None:
                self._hand(self._rest(0, reason))
                return
            self._ask()
            for position in range(len(self._route)):
                item = self._bring(self._route[position:])
                if item is None or not self._hand(item):
                    return
        except Exception as error:  # noqa: BLE001 - an engine can always compute instead
            if self._closed:
                return
            reason = "damaged" if isinstance(error, BitstreamError) else "store"
            self._fail(position, reason, error)
            self._hand(self._rest(position, reason))

    def _refrains(self) -> Reason | None:
        """Return why not even to ask what is held, if there is a reason."""
        if not self._source.link.up:
            return "store"
        trips = 2 * self._source.link.meter.round_trip(time.monotonic())  # the question, and the first chunk's
        return "chosen" if self._text_seconds <= trips else None

    def _ask(self) -> None:
        """Find a way through what is held, in codecs that can be decoded here."""
        started = time.monotonic()
        found = self._source.link.lookup([chunk.key for chunk in self._chunks])
        usable = [{codec: size for codec, size in sizes.items() if codec in self._source.codecs} for sizes in found]
        held = {chunk.key: sizes for chunk, sizes in zip(self._chunks, usable, strict=True) if sizes}
        route = [HeldChunk(chunk, held[chunk.key]) for chunk in leading(self._chunks, held, self._have)]
        reached = route[-1].chunk.stop if route else self._have
        if reached < self._stop:
            route.append(_nothing(reached, self._stop))
        with self._changed:
            self._route = route
            self.lookup_seconds = time.monotonic() - started
            self._asking = False
            self._changed.notify_all()

    def _bring(self, left: Sequence[HeldChunk]) -> Arrived | Recompute | None:
        """Return the next chunk, or that all from it on is to be computed; None once closed."""
        link, chunk, missing = self._source.link, left[0].chunk, not left[0].sizes
        while not self._closed:
            sizes = left[0].sizes
            codec = self._source.policy.choose(self._situation(left, link.meter.transfers + 1))
            if codec == TEXT:
                return self._from(chunk, "missing" if missing else "chosen")
            transfer = link.transfer(chunk.key, codec, sizes[codec])
            try:
                if self._arrives(transfer, left, codec):
                    return Arrived(chunk, codec, transfer.result())
            except NotFoundError:  # no longer held
                missing = len(sizes) == 1
            left = [left[0].without(codec), *left[1:]]  # what was given up once is not begun again
        return None

    def _arrives(self, transfer: Transfer, left: Sequence[HeldChunk], codec: str) -> bool:
        """Wait for a transfer to end, and return True; or give it up where something else is sooner now."""
        while not transfer.wait(_LOOK_SECONDS):
            rest = left[0].sizes[codec] - transfer.received
            situation = self._situation(left, self._source.link.meter.transfers)
            if self._closed:
                transfer.leave()
                return False
            if not self._source.policy.keeps(situation, codec, rest):
                transfer.leave()
                self.given_up += 1
                self.wasted_bytes += transfer.received
                return False
        return True

    def _decode_seconds(self, codec: str, tokens: int) -> float:
        return self._source.link.meter.decode_seconds(codec, tokens, time.monotonic())

    def _situation(self, left: Sequence[HeldChunk], transfers: int) -> Situation:
        now, meter = time.monotonic(), self._source.link.meter
        return Situation(
            left,
            self._costs,
            throughput=meter.throughput(now),
            transfers=transfers,
            round_trip=meter.round_trip(now),
            elapsed=now - self._started,
            slo=self._slo,
            busy=max(0.0, self._decoded_by - now),
            have=self._have,
        )

    def _hand(self, item: Arrived | Recompute) -> bool:
        """Give an item to who takes it; tell whether it was taken and is not the last one."""
        with self._changed:
            self._asking = False
            self._ready = item
            self._changed.notify_all()
            if isinstance(item, Recompute):
                return False
            self._changed.wait_for(lambda: self._ready is None or self._closed)
            return not self._closed

    def _left(self) -> float:
        """Return the seconds until the limit."""
        return min(max(0.0, self._until - time.monotonic()), threading.TIMEOUT_MAX)

    def _late(self, what: str) -> Recompute:
        """Return that what was not taken is to be computed, since the store is too slow; the caller holds the lock."""
        self._closed = True
        self._fail(self._taken, "store", StoreUnavailableError(what))
        return self._rest(self._taken, "store")

    def _rest(self, position: int, reason: Reason) -> Recompute:
        return self._from(self._route[position].chunk, reason)

    def _from(self, chunk: Chunk, reason: Reason) -> Recompute:
        return Recompute(max(self._have, chunk.start), self._stop, reason)

    def _fail(self, position: int, reason: Reason, error: Exception) -> None:
        if reason == "store":
            self._source.link.failed()
        rest = self._rest(position, reason)
        _log.warning("kv chunks are computed instead", reason=reason, tokens=rest.stop - rest.start, error=str(error))


def _nothing(start: int, stop: int) -> HeldChunk:
    return HeldChunk(Chunk("", start, stop), {})
