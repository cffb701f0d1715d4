"""Subscribe to what an engine tells of its prefix cache, so that the tree has the truth instead of a guess.

The protocol is vLLM's, over ZeroMQ: numbered batches to all who subscribe, and a socket that sends past ones again.
When something was missed that cannot be had again, or the engine is gone, nothing counts as held: what the tree says
is held is held.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

import structlog

from flightllm.errors import MissingExtraError
from flightllm.llm.base import KvEventsAddress
from flightllm.router.kv_decode import Decoder, tell
from flightllm.router.mirror import KvMirror

try:
    import zmq
    from zmq.utils.monitor import recv_monitor_message
except ImportError as exc:
    raise MissingExtraError("an engine's account of its prefix cache", "cluster") from exc

__all__ = ["KvEventsAddress", "KvSubscription"]

_POLL_MS: Final = 200
_REPLAY_SECONDS: Final = 5.0
"""How long the socket of past batches may be silent."""
_HEARTBEAT_MS: Final = 5_000
_SILENT_MS: Final = 15_000
"""After which a host that no longer answers counts as gone."""
_QUEUED: Final = 100_000
"""Batches that may wait to be read, as many as vLLM's own publisher keeps."""
_END: Final = (-1).to_bytes(8, "big", signed=True)
_log = structlog.get_logger(__name__)


class KvSubscription:
    """Follow one engine on a thread of its own, and keep `mirror` as the engine says, changed only under `lock`.

    The engine may come later than this, die and come back: each time the account begins anew.
    """

    def __init__(self, address: KvEventsAddress, mirror: KvMirror, lock: AbstractContextManager[Any]) -> None:
        self.address = address
        self.connected = False
        """The engine is there, as far as is known."""
        self.batches = 0
        """Read so far."""
        self.gaps = 0
        """How often something was missed for good, and all was forgotten."""
        self._mirror = mirror
        self._lock = lock
        self._decoder = Decoder()
        self._next: int | None = None
        """The number of the batch to come; None: any."""
        self._heard = -1
        """The number of the last one that came by itself."""
        self._closed = threading.Event()
        self._anew = threading.Event()
        self._context = zmq.Context()
        self._thread = threading.Thread(target=self._run, name="kv-events", daemon=True)
        self._thread.start()

    def forget(self) -> None:
        """Count nothing as held, and begin the account anew. Takes the lock."""
        self._anew.set()
        self._clear()

    def stop(self) -> None:
        """Change nothing any more, and end soon. To be called under the lock; idempotent."""
        self._closed.set()

    def close(self) -> None:
        """End the subscription; what is held stays as it is. Never under the lock; idempotent."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        with self._context:
            while not self._closed.is_set():
                self._anew.clear()
                self._next, self._heard = None, -1
                # A socket of its own for each connection: none hands out what a dead engine left in its queue.
                with self._context.socket(zmq.SUB) as events, events.get_monitor_socket() as monitor:
                    try:
                        self._follow(events, monitor)
                    finally:
                        events.disable_monitor()
                self.connected = False
                if not self._closed.is_set():
                    self._clear()

    def _follow(self, events: zmq.Socket[bytes], monitor: zmq.Socket[bytes]) -> None:
        """Take in what comes until the connection is lost, or this is closed."""
        events.linger = 0
        events.rcvhwm = _QUEUED
        events.heartbeat_ivl, events.heartbeat_timeout = _HEARTBEAT_MS, _SILENT_MS
        events.subscribe(self.address.topic)
        events.connect(self.address.endpoint)
        poller = zmq.Poller()
        poller.register(monitor, zmq.POLLIN)
        poller.register(events, zmq.POLLIN)
        while not self._ends():
            ready = dict(poller.poll(_POLL_MS))
            if monitor in ready:
                change = recv_monitor_message(monitor)["event"]
                if change == zmq.EVENT_DISCONNECTED:
                    _log.info("kv events lost", endpoint=self.address.endpoint)
                    return
                if change == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                    self.connected = True
                    self._catch_up(0)
            elif events in ready:
                frames = events.recv_multipart()
                self._hear(int.from_bytes(frames[-2], "big") if len(frames) > 1 else -1, frames[-1])

    def _ends(self) -> bool:
        """Tell whether this connection is to be given up."""
        return self._closed.is_set() or self._anew.is_set()

    def _hear(self, number: int, payload: bytes) -> None:
        """Take in a batch that came by itself."""
        if number <= self._heard:  # the engine began anew behind something that kept the connection
            self._clear()
            self._next = None
            self._catch_up(0)
        self._heard = number
        if self._next is not None and number > self._next:
            self._catch_up(self._next)
        self._take(number, payload)

    def _catch_up(self, start: int) -> None:
        """Ask for the batches from a number on, where they are kept."""
        if self.address.replay:
            for number, payload in self._replayed(start):
                self._take(number, payload)

    def _replayed(self, start: int) -> Iterator[tuple[int, bytes]]:
        with self._context.socket(zmq.DEALER) as past:
            past.linger = 0
            past.rcvhwm = 0
            past.connect(self.address.replay)
            past.send_multipart([b"", start.to_bytes(8, "big")])
            silent = 0
            while silent < _REPLAY_SECONDS * 1_000 and not self._ends():
                if not past.poll(_POLL_MS):
                    silent += _POLL_MS
                    continue
                silent = 0
                *_, number, payload = past.recv_multipart()
                if number == _END:
                    return
                yield int.from_bytes(number, "big"), payload
        if not self._ends():
            _log.warning("kv events not replayed", endpoint=self.address.replay, seconds=_REPLAY_SECONDS)

    def _take(self, number: int, payload: bytes) -> None:
        """Follow a batch; forget all where others before it are missing, or it cannot be read."""
        if self._next is not None and number < self._next:
            return  # it was replayed
        if self._next is not None and number > self._next:
            _log.warning("kv events missed", endpoint=self.address.endpoint, batches=number - self._next)
            self._lose()
        self._next = number + 1
        try:
            told = self._decoder.read(payload)
        except ValueError as error:  # msgspec's errors are
            _log.warning("kv events unreadable", endpoint=self.address.endpoint, error=str(error))
            self._lose()
            return
        self.batches += 1
        with self._lock:
            for event in () if self._closed.is_set() else told:
                tell(event, self._mirror)

    def _lose(self) -> None:
        self.gaps += 1
        self._clear()

    def _clear(self) -> None:
        with self._lock:
            if not self._closed.is_set():
                self._mirror.cleared()
