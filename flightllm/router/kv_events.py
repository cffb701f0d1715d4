"""Subscribe to what an engine tells of its prefix cache, so that the tree has the truth instead of a guess.

The protocol is vLLM's, over ZeroMQ: numbered batches to all who subscribe, and a socket that sends past ones again.
When something was missed that cannot be had again, or the engine is gone, nothing counts as held: what the tree says
is held is held.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

import structlog

from flightllm.errors import MissingExtraError
from flightllm.model.engine import KvEventsAddress
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
_AGAIN_SECONDS: Final = 5.0
"""Between attempts where there cannot even be a socket to that address."""
_QUEUED: Final = 100_000
"""Batches that may wait to be read, as many as vLLM's own publisher keeps."""
_END: Final = (-1).to_bytes(8, "big", signed=True)
_log = structlog.get_logger(__name__)


class KvSubscription:
    """Follow one engine on a thread of its own, and keep `mirror` as the engine says, changed only under `lock`.

    The engine may come later than this, die and come back: each time the account begins anew.
    """

    def __init__(
        self,
        address: KvEventsAddress,
        mirror: KvMirror,
        lock: AbstractContextManager[Any],
        changed: Callable[[bool], object] = lambda _: None,
    ) -> None:
        """Begin. `changed` is told under the lock when the connection is made, and when it is lost.

        Both times nothing counts as held at that moment. It is not told of the end of the subscription.
        """
        self.address = address
        self.gaps = 0
        """How often something was missed for good, and all was forgotten."""
        self._mirror = mirror
        self._lock = lock
        self._changed = changed
        self._connected = False
        self._failure = "", ""
        """The last one that was told."""
        self._misfit: int | None = None
        """Of which size of blocks it was told that they are left out."""
        self._decoder = Decoder()
        self._next: int | None = None
        """The number of the batch to come; None: any."""
        self._heard = -1
        """The number of the last one that came by itself."""
        self._lost = False
        """What became of the connection that is followed, as far as the monitor was read."""
        self._closed = threading.Event()
        self._monitor: zmq.Socket[bytes]
        self._context = zmq.Context()
        self._thread = threading.Thread(target=self._run, name="kv-events", daemon=True)
        self._thread.start()

    @property
    def connected(self) -> bool:
        """Tell whether the engine's publisher is there, as far as is known: what counts as held is what it says."""
        return self._connected and not self._closed.is_set()

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
                pause = 0.0
                try:
                    self._connect()
                except zmq.ZMQError as error:  # no address after all, or no room for one more socket
                    self._fail(self.address.endpoint, error)
                    pause = _AGAIN_SECONDS
                finally:
                    self._change(connected=False)
                self._closed.wait(pause)

    def _connect(self) -> None:
        """Follow the engine over one connection, on a socket of its own.

        None hands out what a dead engine left in its queue.
        """
        self._next, self._heard, self._lost = None, -1, False
        with self._context.socket(zmq.SUB) as events, events.get_monitor_socket() as self._monitor:
            try:
                self._follow(events)
            finally:
                events.disable_monitor()

    def _change(self, *, connected: bool) -> None:
        """Count nothing as held where the connection was made or lost just now, and tell."""
        with self._lock:
            before, self._connected = self._connected, connected
            if connected != before and not self._closed.is_set():
                self._mirror.cleared()
                self._changed(connected)

    def _fail(self, endpoint: str, error: zmq.ZMQError) -> None:
        """Log why an endpoint cannot be used, unless it is as it was the last time."""
        if self._failure != (endpoint, str(error)):
            _log.warning("kv events cannot be followed", endpoint=endpoint, error=str(error))
        self._failure = endpoint, str(error)

    def _follow(self, events: zmq.Socket[bytes]) -> None:
        """Take in what comes until the connection is lost, or this is closed."""
        events.linger = 0
        events.rcvhwm = _QUEUED
        events.heartbeat_ivl, events.heartbeat_timeout = _HEARTBEAT_MS, _SILENT_MS
        events.subscribe(self.address.topic)
        events.connect(self.address.endpoint)
        poller = zmq.Poller()
        poller.register(self._monitor, zmq.POLLIN)
        poller.register(events, zmq.POLLIN)
        while not self._over():
            ready = dict(poller.poll(_POLL_MS))
            if self._monitor in ready:
                if self._state() == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                    self._change(connected=True)
                    self._catch_up(0)
            elif events in ready:
                frames = events.recv_multipart()
                self._hear(int.from_bytes(frames[-2], "big") if len(frames) > 1 else -1, frames[-1])

    def _state(self) -> int:
        """Read what became of the connection."""
        state = int(recv_monitor_message(self._monitor)["event"])
        if state == zmq.EVENT_DISCONNECTED:
            _log.info("kv events lost", endpoint=self.address.endpoint)
            self._lost = True
        return state

    def _over(self) -> bool:
        """Tell whether the connection was lost, or this is closed."""
        return self._lost or self._closed.is_set()

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
        if not self.address.replay:
            return
        try:
            for number, payload in self._replayed(start):
                self._take(number, payload)
        except zmq.ZMQError as error:
            self._fail(self.address.replay, error)

    def _replayed(self, start: int) -> Iterator[tuple[int, bytes]]:
        with self._context.socket(zmq.DEALER) as past:
            past.linger = 0
            past.rcvhwm = 0
            past.connect(self.address.replay)
            past.send_multipart([b"", start.to_bytes(8, "big")])
            silent = 0
            while silent < _REPLAY_SECONDS * 1_000 and not self._over():
                if self._monitor.poll(0):
                    self._state()
                elif not past.poll(_POLL_MS):
                    silent += _POLL_MS
                else:
                    silent = 0
                    *_, number, payload = past.recv_multipart()
                    if number == _END:
                        return
                    yield int.from_bytes(number, "big"), payload
        if not self._over():
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
        with self._lock:
            for event in () if self._closed.is_set() else told:
                tell(event, self._mirror)
            tokens = self._mirror.other_tokens
        if tokens not in {None, self._misfit}:
            self._misfit = tokens
            _log.warning(
                "kv events of blocks of another size: nothing of them counts as held",
                endpoint=self.address.endpoint,
                write=f"block_tokens = {tokens}",
            )

    def _lose(self) -> None:
        self.gaps += 1
        self._clear()

    def _clear(self) -> None:
        with self._lock:
            if not self._closed.is_set():
                self._mirror.cleared()
