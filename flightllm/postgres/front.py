"""The state that all connections share: the event loop, the threads, and the keys that cancel statements."""

import asyncio
import secrets
import ssl
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from flightllm.common.listening import is_loopback
from flightllm.config import PostgresConfig
from flightllm.flight.core import Core
from flightllm.postgres.failures import WireError

_SPARE = 32
"""Connections beyond the most that get an error; further ones are closed at once."""
_WORDS = 32
"""The bits of the two numbers of a key."""


class Cancellable(Protocol):
    """The talk with a client that can be cancelled."""

    def cancel(self) -> None:
        """Stop the statement that runs."""


class Connected(Protocol):
    """A connection, as the front sees it."""

    @property
    def key(self) -> tuple[int, int] | None:
        """Return the number and the secret by which it can be cancelled."""

    @property
    def conversation(self) -> Cancellable | None:
        """Return the talk, once the client has logged in."""

    def shut(self, error: WireError) -> None:
        """Send an error and close."""

    def abort(self) -> None:
        """Close at once."""


class Front:
    """The state that all connections share. `add`, `remove` and `cancel` are called only in the event loop."""

    def __init__(
        self, core: Core, config: PostgresConfig, tls: ssl.SSLContext | None, binding: bytes | None, *, clear: bool
    ) -> None:
        self.core = core
        self.config = config
        self.tls = tls
        self.binding = binding
        self.clear = clear
        """Whether other machines can connect without encryption."""
        self.most = config.connections
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._connections = set[Connected]()
        self._keys: dict[int, list[Connected]] = {}
        """The connections by the numbers of their keys; two can have one number."""
        self._tasks = set[asyncio.Task[None]]()

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Use an event loop, and threads of a new pool."""
        self._loop = loop
        self._pool = ThreadPoolExecutor(self.most + 2 * _SPARE, thread_name_prefix="postgres")

    @staticmethod
    def is_local(host: str) -> bool:
        """Return whether a client is on this machine."""
        return is_loopback(host.removeprefix("::ffff:"))

    def add(self, connection: Connected) -> bool:
        """Count a new connection; return False if there is no room even for an error."""
        if len(self._connections) >= self.most + _SPARE:
            return False
        self._connections.add(connection)
        return True

    def remove(self, connection: Connected) -> None:
        """Forget a connection."""
        self._connections.discard(connection)
        if connection.key is not None:
            left = [one for one in self._keys.pop(connection.key[0], ()) if one is not connection]
            if left:
                self._keys[connection.key[0]] = left

    @property
    def is_full(self) -> bool:
        """Return whether there are more connections than allowed."""
        return len(self._connections) > self.most

    def new_key(self, connection: Connected, number: int) -> tuple[int, int]:
        """Return the number of a connection, and a secret with which it can be cancelled."""
        self.soon(self._know, connection, number)
        return number, secrets.randbits(_WORDS)

    def _know(self, connection: Connected, number: int) -> None:
        if connection in self._connections:  # else it has ended meanwhile
            self._keys.setdefault(number, []).append(connection)

    def cancel(self, key: tuple[int, int]) -> None:
        """Cancel the statement of the connection with this key; do nothing for another key."""
        for one in self._keys.get(key[0], ()):
            known = b"" if one.key is None else one.key[1].to_bytes(8)
            if secrets.compare_digest(known, key[1].to_bytes(8)) and one.conversation is not None:
                one.conversation.cancel()

    def submit(self, work: Callable[[], None]) -> None:
        """Run work in a thread of the pool."""
        if self._pool is not None:
            self._pool.submit(work)

    def soon(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function in the event loop, if the loop still runs."""
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(function, *arguments)
            except RuntimeError:  # the loop was closed meanwhile
                return

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the event loop."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def shut(self, error: WireError) -> None:
        """End all connections, and wait a little for them."""
        for connection in list(self._connections):
            connection.shut(error)
        for _ in range(20):
            if not self._connections:
                return
            await asyncio.sleep(0.05)
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)

    def close(self) -> None:
        """Let the pool's threads end."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)
