"""Serve agents over standard input and output, or over HTTP, until they leave or the process ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server.stdio import stdio_server

from flightllm.common.listening import is_loopback, listen_on, shown_host
from flightllm.config.checks import host_and_port
from flightllm.errors import ConfigError
from flightllm.functions.registry import FunctionRegistry
from flightllm.mcp.callers import Callers
from flightllm.mcp.http import PATH, create_app
from flightllm.mcp.limits import Limits
from flightllm.mcp.server import AgentServer


def serve_stdio(callers: Callers, limits: Limits) -> None:
    """Serve the process that started this one, until it closes standard input."""
    agents = AgentServer(callers, limits, FunctionRegistry.load())

    async def serve() -> None:
        async with stdio_server() as (read, write):
            await agents.server.run(read, write, agents.server.create_initialization_options())

    anyio.run(serve)


@dataclass(frozen=True, slots=True)
class HttpPlace:
    """Where agents connect over HTTP.

    `names` are further host names of this machine. Beyond this machine, credentials need TLS, or `insecure`.
    """

    listen: str
    names: Sequence[str] = ()
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False

    def check(self) -> None:
        """Check that other machines can read no credentials on their way.

        Raises:
            ConfigError: the address is wrong, or not safe.
        """
        host, _ = host_and_port("--listen", self.listen)
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError("--tls-certificate and --tls-key: give both, the files of a certificate and its key")
        if self.tls_certificate is None and not self.insecure and not is_loopback(host):
            raise ConfigError(
                f"--listen: {self.listen} can be reached from other machines, and without TLS they send credentials"
                " in plain text: give --tls-certificate and --tls-key, or --insecure behind a proxy that has TLS"
            )


class HttpServer:
    """Serves all callers over HTTP. It listens from the start, and answers while `run` runs.

    Raises:
        ConfigError: the address is in use, not of this machine, or not safe.
    """

    def __init__(self, callers: Callers, limits: Limits, place: HttpPlace) -> None:
        place.check()
        host, port = host_and_port("--listen", place.listen)
        self._listening = listen_on(host, port, "--listen")
        tls: dict[str, Any] = {}
        if place.tls_certificate is not None:
            tls = {"ssl_certfile": place.tls_certificate, "ssl_keyfile": place.tls_key}
        app = create_app(AgentServer(callers, limits, FunctionRegistry.load()), callers, host, place.names)
        quiet: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False}
        self._server = uvicorn.Server(uvicorn.Config(app, timeout_graceful_shutdown=1, **quiet, **tls))
        scheme = "https" if tls else "http"
        self.address = f"{scheme}://{shown_host(host)}:{self._listening.getsockname()[1]}{PATH}"

    def run(self) -> None:
        """Answer until a signal ends the process, or `stop` is called."""
        self._server.run([self._listening])

    def stop(self) -> None:
        """Let `run` return soon; any thread can call it."""
        self._server.should_exit = True
