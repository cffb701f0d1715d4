"""Run the server in this process until it is told to stop."""

import signal
import threading
from types import FrameType

import structlog

from flightllm.config import Config
from flightllm.flight.server import FlightSqlServer
from flightllm.observe.http import HttpServer
from flightllm.session import Database

DRAIN_SECONDS = 20.0
"""How long running queries may take to finish after SIGTERM; container runtimes kill after 30 s."""
_log = structlog.get_logger(__name__)


def serve(config: Config) -> None:
    """Open the database, listen, print `listening grpc://HOST:PORT`, and block until SIGTERM or SIGINT.

    Running queries may finish first. A second signal stops at once.
    """
    stop = threading.Event()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise SystemExit(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    database = Database.open(config)
    try:
        names = [function.name for function in database.functions]
        server = FlightSqlServer(database, config.server, config.limits, functions=names, login=database.access.login)
        with HttpServer(config.http, database, server):
            print(f"listening {server.uri}", flush=True)  # noqa: T201 - what a script waits for
            stop.wait()
            _log.info("draining", seconds=DRAIN_SECONDS)
            server.drain(DRAIN_SECONDS)
    finally:
        database.close()
