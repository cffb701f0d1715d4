"""Serve the HTTP application in a separate thread, beside the Flight SQL server."""

import socket
import threading
from typing import Any, Self

import structlog

from flightllm.common.listening import listen_on, shown_host
from flightllm.config import HttpConfig, ServerConfig
from flightllm.errors import MissingExtraError
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database

_log = structlog.get_logger(__name__)
_STOP_SECONDS = 5.0
_MOST_CONNECTIONS = 256
"""The most connections at once, including idle ones of open pages; further ones are refused with 503."""


class HttpServer:
    """The HTTP server that `[http]` configures; no server without an address. It stops at the end of its `with` block.

    With the page it uses the certificate and key of `server_config`, if they are set. `listening` is the socket of a
    former process of this server.

    Raises:
        ConfigError: the address is in use or not of this machine, or the page would be sent unencrypted.
        MissingExtraError: the extra `web` is not installed.
    """

    def __init__(
        self,
        config: HttpConfig,
        database: Database,
        server: FlightSqlServer,
        server_config: ServerConfig | None = None,
        listening: socket.socket | None = None,
    ) -> None:
        self.uri: str | None = None
        self.port: int | None = None
        self._server: Any = None
        if config.address is None:
            return
        try:
            import uvicorn

            from flightllm.web.app import create_page
            from flightllm.web.connections import PromptProtocol, bounded
            from flightllm.web.health import create_app
            from flightllm.web.metrics import Metrics
        except ImportError as exc:
            raise MissingExtraError("[http]", "web") from exc

        def problem() -> str | None:
            if server.load().draining:
                return "draining"
            return None if database.engine_up else "the engine is down"

        host, port = config.address
        tls: dict[str, Any] = {}
        routes = []
        if config.page:
            about = server_config or ServerConfig()
            about.check_exposure(asks_nobody=server.core.login.is_open, section="http", listen=config.listen)
            if about.tls_certificate is not None:
                tls = {"ssl_certfile": about.tls_certificate, "ssl_keyfile": about.tls_key}
            routes.append(create_page(database, server.core, host, config.hosts, encrypted=bool(tls)))
        metrics = Metrics(database, server) if config.shows_metrics else None
        app = create_app(problem, metrics, routes, listen=host, names=config.hosts)
        instead = "set another address there, or by --web HOST:PORT"
        listening = listening or listen_on(host, port, "[http] listen", instead)
        self.port = listening.getsockname()[1]
        self.uri = f"{'https' if tls else 'http'}://{shown_host(host)}:{self.port}"

        def make() -> Any:
            connections = set[Any]()
            made = uvicorn.Server(
                uvicorn.Config(
                    bounded(app, connections, _MOST_CONNECTIONS),
                    http=PromptProtocol,
                    log_config=None,
                    access_log=False,
                    lifespan="off",
                    timeout_graceful_shutdown=1,
                    server_header=False,
                    **tls,
                )
            )
            made.server_state.connections = connections
            return made

        self._make = make
        self._serve(listening)
        _log.info("serving http", uri=self.uri, metrics=config.shows_metrics, page=config.page)

    def _serve(self, listening: socket.socket) -> None:
        self._listening = listening
        self._server = self._make()
        self._thread = threading.Thread(target=self._server.run, args=([listening],), name="http", daemon=True)
        self._thread.start()

    def pause(self) -> socket.socket | None:
        """Let new connections wait, and close the present ones; return the socket in which new ones wait, if any."""
        if self._server is None:
            return None
        kept = self._listening.dup()
        self.close()
        return kept

    def resume(self, listening: socket.socket | None) -> None:
        """Accept the connections that wait since `pause`."""
        if listening is not None:
            self._serve(listening)

    def close(self) -> None:
        """Stop serving. Idempotent."""
        if self._server is not None:
            self._server.should_exit = True
            self._thread.join(_STOP_SECONDS)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()
