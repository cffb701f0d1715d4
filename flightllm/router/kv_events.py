"""Subscribe to an engine's KV events, so that the tree knows the real contents of the prefix cache.

The protocol comes from vLLM, over ZeroMQ: the engine publishes numbered batches, and a second socket replays old ones.
When a batch is lost for good, or the engine is gone, no block counts as held. So each block that the tree counts as
held is in the cache.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

import structlog

from flightllm.errors import MissingExtraError
from flightllm.llm.engine import KvEventsAddress
from flightllm.router.kv_decode import Decoder, tell
from flightllm.router.mirror import KvMirror

try:
    import zmq
    from zmq.utils.monitor import recv_monitor_message
except ImportError as exc:
    raise MissingExtraError("the KV events of an engine", "cluster") from exc

__all__ = ["KvEventsAddress", "KvSubscription"]

_POLL_MS: Final = 200
_REPLAY_SECONDS: Final = 5.0
"""The replay ends when its socket is silent for this long."""
_HEARTBEAT_MS: Final = 5_000
_SILENT_MS: Final = 15_000
"""A host that does not answer heartbeats for this long counts as gone."""
_AGAIN_SECONDS: Final = 5.0
"""The pause between attempts where ZeroMQ cannot create a socket for the address."""
_QUEUED: Final = 100_000
"""The most batches that can wait to be read: as many as vLLM's own publisher keeps."""
_END: Final = (-1).to_bytes(8, "big", signed=True)
_log = structlog.get_logger(__name__)


class KvSubscription:
    """A thread that applies the KV events of one engine to `mirror`; it changes the mirror only under `lock`.

    The engine can start after the subscription, and can die and return. The mirror starts empty each time.
    """

    def __init__(
        self,
        address: KvEventsAddress,
        mirror: KvMirror,
        lock: AbstractContextManager[Any],
        changed: Callable[[bool], object] = lambda _: None,
    ) -> None:
        """Start the thread. It calls `changed` under the lock with True on connect, and with False on disconnect.

        At both moments no block counts as held. The end of the subscription does not call `changed`.
        """
        self.address = address
        self.gaps = 0
        """How often a batch was lost for good, so that the mirror was cleared."""
        self._mirror = mirror
        self._lock = lock
        self._changed = changed
        self._connected = False
        self._failure = "", ""
        """The endpoint and text of the last logged error."""
        self._misfit: int | None = None
        """The block size, in tokens, that the last warning about ignored blocks named."""
        self._decoder = Decoder()
        self._next: int | None = None
        """The number of the next expected batch; None: any."""
        self._heard = -1
        """The number of the last batch that came from the publisher and not from a replay."""
        self._lost = False
        """Whether the monitor reported that the connection was lost."""
        self._closed = threading.Event()
        self._monitor: zmq.Socket[bytes]
        self._context = zmq.Context()
        self._thread = threading.Thread(target=self._run, name="kv-events", daemon=True)
        self._thread.start()

    @property
    def connected(self) -> bool:
        """Return whether the engine's publisher is connected, as far as is known; the mirror then follows it."""
        return self._connected and not self._closed.is_set()

    def stop(self) -> None:
        """Stop changing the mirror, and end the thread soon. The caller must hold the lock; idempotent."""
        self._closed.set()

    def close(self) -> None:
        """End the subscription; the mirror stays as it is. The caller must not hold the lock; idempotent."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        with self._context:
            while not self._closed.is_set():
                pause = 0.0
                try:
                    self._connect()
                except zmq.ZMQError as error:  # an invalid address, or too many sockets
                    self._fail(self.address.endpoint, error)
                    pause = _AGAIN_SECONDS
                finally:
                    self._change(connected=False)
                self._closed.wait(pause)

    def _connect(self) -> None:
        """Follow the engine over one connection.

        Each connection has a new socket: an old socket's queue can still hold batches of a dead engine.
        """
        self._next, self._heard, self._lost = None, -1, False
        with self._context.socket(zmq.SUB) as events, events.get_monitor_socket() as self._monitor:
            try:
                self._follow(events)
            finally:
                events.disable_monitor()

    def _change(self, *, connected: bool) -> None:
        """Clear the mirror and call `changed` if the connection was just made or lost."""
        with self._lock:
            before, self._connected = self._connected, connected
            if connected != before and not self._closed.is_set():
                self._mirror.cleared()
                self._changed(connected)

    def _fail(self, endpoint: str, error: zmq.ZMQError) -> None:
        """Log why an endpoint cannot be used, unless the last log entry says the same."""
        if self._failure != (endpoint, str(error)):
            _log.warning("kv events cannot be followed", endpoint=endpoint, error=str(error))
        self._failure = endpoint, str(error)

    def _follow(self, events: zmq.Socket[bytes]) -> None:
        """Apply batches until the connection is lost or the subscription is closed."""
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
        """Read and return the connection's next state from the monitor."""
        state = int(recv_monitor_message(self._monitor)["event"])
        if state == zmq.EVENT_DISCONNECTED:
            _log.info("kv events lost", endpoint=self.address.endpoint)
            self._lost = True
        return state

    def _over(self) -> bool:
        """Return whether the connection was lost or the subscription is closed."""
        return self._lost or self._closed.is_set()

    def _hear(self, number: int, payload: bytes) -> None:
        """Apply a published batch, after any missed batches that can be replayed."""
        if number <= self._heard:  # the engine restarted behind a proxy that kept the connection
            self._clear()
            self._next = None
            self._catch_up(0)
        self._heard = number
        if self._next is not None and number > self._next:
            self._catch_up(self._next)
        self._take(number, payload)

    def _catch_up(self, start: int) -> None:
        """Apply the replayed batches from number `start` on, if the engine offers a replay."""
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
        """Apply a batch; clear the mirror first if earlier batches are missing, or if the batch is unreadable."""
        if self._next is not None and number < self._next:
            return  # a replay has already applied this batch
        if self._next is not None and number > self._next:
            _log.warning("kv events missed", endpoint=self.address.endpoint, batches=number - self._next)
            self._lose()
        self._next = number + 1
        try:
            told = self._decoder.read(payload)
        except ValueError as error:  # the base class of msgspec's errors
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
                "kv events have another block size: their blocks are ignored",
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
