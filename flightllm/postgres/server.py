"""Serve PostgreSQL's protocol from an event loop in a thread of its own, beside the Flight SQL server."""

import asyncio
import hashlib
import socket
import ssl
import threading
from typing import Self

import structlog

from flightllm.common.listening import listen_on, shown_host
from flightllm.config import PostgresConfig, ServerConfig
from flightllm.errors import ConfigError
from flightllm.flight.core import Core
from flightllm.postgres.certificates import end_point
from flightllm.postgres.connection import Connection
from flightllm.postgres.failures import fatal
from flightllm.postgres.front import Front

_log = structlog.get_logger(__name__)
_STOP_SECONDS = 5.0


class PostgresServer:
    """The server that `[postgres]` configures; no server without an address. It stops at the end of its `with` block.

    It uses the certificate and key of `server_config`, if they are set. `listening` is the socket of a former process
    of this server.

    Raises:
        ConfigError: the address is in use or not of this machine, or passwords would be sent unencrypted.
    """

    def __init__(
        self,
        config: PostgresConfig,
        core: Core,
        server_config: ServerConfig | None = None,
        listening: socket.socket | None = None,
    ) -> None:
        self.uri: str | None = None
        self.port: int | None = None
        self._thread: threading.Thread | None = None
        if config.address is None:
            return
        about = server_config or ServerConfig()
        about.check_exposure(asks_nobody=core.login.is_open, section="postgres", listen=config.listen)
        tls, binding = _tls(about)
        self._front = Front(core, config, tls, binding, clear=tls is None or about.insecure)
        host, port = config.address
        instead = "set another address there"
        listening = listening or listen_on(host, port, "[postgres] listen", instead, backlog=256)
        self.port = int(listening.getsockname()[1])
        self.uri = f"postgresql://{shown_host(host)}:{self.port}/flightllm"
        self._serve(listening)
        _log.info("serving postgres", uri=self.uri, encrypted=tls is not None)

    def _serve(self, listening: socket.socket) -> None:
        listening.setblocking(False)  # noqa: FBT003 - the standard library's own
        self._listening = listening
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._front.open(self._loop)
        self._thread = threading.Thread(target=self._run, name="postgres", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        serving = loop.run_until_complete(loop.create_server(lambda: Connection(self._front), sock=self._listening))

        async def until_stopped() -> None:
            await self._stop.wait()
            serving.close()
            await self._front.shut(fatal("57P01", "terminating connection due to administrator command"))

        try:
            loop.run_until_complete(until_stopped())
        finally:
            self._front.close()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def pause(self) -> socket.socket | None:
        """Let new connections wait, and end the present ones; return the socket in which new ones wait, if any."""
        if self._thread is None:
            return None
        kept = self._listening.dup()
        self.close()
        return kept

    def resume(self, listening: socket.socket | None) -> None:
        """Accept the connections that wait since `pause`."""
        if listening is not None:
            self._serve(listening)

    def close(self) -> None:
        """End all connections with an error that tells clients to connect again. Idempotent."""
        if self._thread is not None:
            self._front.soon(self._stop.set)
            self._thread.join(_STOP_SECONDS)
            self._thread = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()


def _tls(config: ServerConfig) -> tuple[ssl.SSLContext | None, bytes | None]:
    """Return the server's certificate for TLS, and its hash for clients that bind their login to it."""
    if config.tls_certificate is None or config.tls_key is None:
        return None, None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(config.tls_certificate, config.tls_key)
        name, certificate = end_point(config.tls_certificate.read_text())
    except (OSError, ssl.SSLError, ValueError) as error:
        raise ConfigError(f"[server] tls_certificate and tls_key: cannot be used: {error}") from error
    return context, None if name is None else hashlib.new(name, certificate).digest()
