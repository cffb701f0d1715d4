"""Runs the server in this process until it is told to stop."""

import gc
import os
import sys
from collections.abc import Callable

import structlog

from flightllm.common.signals import stop_by_signals
from flightllm.config import Config
from flightllm.engines.registry import check_endpoint
from flightllm.flight.limits import FlightLimits
from flightllm.flight.server import FlightSqlServer
from flightllm.flight.sockets import keep_alive, told_where
from flightllm.postgres.server import PostgresServer
from flightllm.recovery.messages import Listening
from flightllm.recovery.watch import Watch
from flightllm.server.announce import announce
from flightllm.server.kv_serve import open_server
from flightllm.server.renewal import Inherited, Renewal
from flightllm.session.database import Database
from flightllm.sql.names import parse_name
from flightllm.web.http_server import HttpServer

_SIGNAL_SECONDS = 1.0
"""How long to wait at once. Python handles signals between two waits, and not every signal interrupts a wait."""
_SWITCH_SECONDS = 0.0005
"""How soon a thread passes Python's interpreter on to a waiting thread.

A short statement needs the interpreter about 30 times. By Python's default of 5 ms it would wait as often for each
thread that plans another statement. With 12 clients the shorter time costs no throughput that can be measured.
"""
_log = structlog.get_logger(__name__)


def serve(config: Config) -> None:
    """Serve without a supervisor: print `listening grpc://HOST:PORT`, and block until SIGTERM, SIGINT or a drain.

    Running queries get `[recovery] drain_seconds` to finish first. A second signal stops at once.
    """
    run(config, lambda started: announce(started, config))


def run(
    config: Config,
    listening: Callable[[Listening], None],
    watch: Watch | None = None,
    *,
    restarted: bool = False,
    renewal: Renewal | None = None,
    inherited: Inherited | None = None,
) -> None:
    """Open the database, listen, call `listening`, and block until the server is told to stop or handed over.

    After a restart, the engine opens in the background, so that plain queries are answered at once. `renewal` hands
    the server over to another process, which then gets `inherited`.

    Raises:
        ConfigError: the address cannot be used, or a setting is wrong.
        FlightLLMError: the engine did not start, or its endpoint does not answer at the first start.
    """
    stop = stop_by_signals()
    sys.setswitchinterval(_SWITCH_SECONDS)
    os.umask(0o077)  # only this user can read the server's files
    if config.limits.spill_folder is not None:  # DataFusion spills to the process's temporary folder
        os.environ["TMPDIR"] = str(config.limits.spill_folder)
    database = Database.open(config, watch=watch, restarted=restarted)
    try:
        if config.server.check_engine and not restarted:
            check_endpoint(database.engine)
        server = _server(database, config, stop.set, inherited)
        kvstore = open_server(config, database.access.login)
        socket, other = (None, None) if inherited is None else (inherited.http, inherited.postgres)
        with (
            HttpServer(config.http, database, server, server_config=config.server, listening=socket) as http,
            PostgresServer(config.postgres, server.core, config.server, listening=other) as postgres,
        ):
            for port in (http.port, postgres.port):
                if port is not None:
                    keep_alive(port, config.recovery.dead_peer_seconds)
            if server.certified_port is not None:
                _log.info("listening to clients with certificates", port=server.certified_port)
            database.tidy()  # not earlier: a start that fails must change nothing
            database.warm()
            gc.freeze()  # a collection would visit a million objects that stay: a third of the time of planning
            page = http.uri if config.http.page else None
            table = next((name for name in config.tables if parse_name(name) in database.catalog.entries), None)
            is_open = database.access.login.is_open
            listening(Listening(server.uri, page, is_open=is_open, table=table, postgres=postgres.uri))
            while not stop.wait(_SIGNAL_SECONDS):
                if renewal is not None and kvstore is None and renewal.renewed(server, http, postgres, database):
                    database.queries.close()
                    os._exit(0)  # closing the database would write into a folder that another process uses now
            seconds = config.recovery.drain_seconds
            _log.info("draining", seconds=seconds)
            ended = server.drain(seconds)
            if kvstore is not None:  # after the drain, because running queries can use it
                ended = kvstore.stop() and ended
    finally:
        database.close()
    if not ended:
        _log.warning("a client neither reads its call's rows nor disconnects: its call is cancelled")
        os._exit(0)  # the interpreter would wait for it


def _server(
    database: Database, config: Config, stop: Callable[[], None], inherited: Inherited | None = None
) -> FlightSqlServer:
    names = [function.name for function in database.functions]
    with told_where(config.server.listen, "--listen"):
        server = FlightSqlServer(
            database,
            config.server,
            config.limits,
            functions=names,
            flight_limits=FlightLimits.of(config.limits, config.recovery),
            stop=stop,
            login=database.access.login,
            continued=None if inherited is None else inherited.flight,
        )
    if inherited is not None:
        inherited.await_turn()
        server.take_over(inherited.flight.sockets)
    for port in (server.number, server.certified_port):
        if port is not None:
            keep_alive(port, config.recovery.dead_peer_seconds)
    return server
