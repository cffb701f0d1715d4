"""The Flight SQL server: decodes calls, dispatches them, and raises only Flight statuses."""

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyarrow import flight

from flightllm.access.login import Login
from flightllm.access.store import AccessStore
from flightllm.config import AuthConfig, LimitsConfig, ServerConfig
from flightllm.flight.actions import ACTIONS, act
from flightllm.flight.auth import CALL, CallFactory, Handshake
from flightllm.flight.backend import BackendDatabase
from flightllm.flight.batches import sliced
from flightllm.flight.core import Core
from flightllm.flight.errors import boundary, hide_tracebacks
from flightllm.flight.handover import continue_from
from flightllm.flight.infos import DONE, NO_COLUMNS, flight_info, result_schema
from flightllm.flight.limits import FlightLimits
from flightllm.flight.listeners import close_doors, listeners, replace_listeners
from flightllm.flight.load import ServerLoad
from flightllm.flight.messages import unpack, unpack_as
from flightllm.flight.metadata import is_metadata, metadata_table
from flightllm.flight.puts import put
from flightllm.flight.results import ResultStream
from flightllm.flight.sql_info import sql_info

_STOP_SECONDS = 5.0
"""The time that cancelled calls have to end."""


class _Port(flight.FlightServerBase):
    """One port of a server. Calls arrive on gRPC's own threads, several at once."""

    def __init__(self, core: Core, location: flight.Location, factory: CallFactory, **options: Any) -> None:
        self._core = core
        super().__init__(location, middleware={CALL: factory}, **options)

    @property
    def core(self) -> Core:
        """Return the state that all calls share, for front ends of other protocols."""
        return self._core

    def load(self) -> ServerLoad:
        """Return the server's load."""
        return self._core.load()

    def refused(self, error: BaseException) -> None:
        """Count `error` if a limit caused it."""
        self._core.refusals.note(error)

    @boundary
    def get_flight_info(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.FlightInfo:
        """Plan a query or run an update."""
        return flight_info(self._core, context, descriptor, unpack(descriptor.command or b""))

    @boundary
    def get_schema(self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        """Return a result's schema."""
        return flight.SchemaResult(result_schema(self._core, context, unpack(descriptor.command or b"")))

    @boundary
    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        """Stream a result."""
        command = unpack(ticket.ticket)
        if is_metadata(command):
            catalog = self._core.session(context).catalog
            most = self._core.limits.batch_bytes
            table = metadata_table(command, catalog, self._core.info, most)
            pieces = (piece for batch in table.to_batches() for piece in sliced(batch, most))
            return flight.RecordBatchStream(pa.RecordBatchReader.from_batches(table.schema, pieces))
        handle = unpack_as("TicketStatementQuery", ticket.ticket).statement_handle
        if handle == DONE:
            return flight.GeneratorStream(NO_COLUMNS, iter(()))
        core = self._core
        statement, part = core.statement_of(context, handle)
        again = partial(core.run, context, statement.session, text=statement.text, discard=lambda _: statement.drop())
        result = statement.take(part, again)
        recipient = core.recipient(context, statement.session, statement.settings)
        rows = ResultStream(result, core.limits, core.slots, recipient, context)
        return flight.GeneratorStream(result.schema, rows)

    @boundary
    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        """Bind parameters, run an update or ingest a table."""
        answer = put(self._core, context, unpack(descriptor.command or b""), reader)
        writer.write(answer.SerializeToString())

    @boundary
    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[flight.Result]:
        """Run an action."""
        body = act(self._core, context, action.type, action.body.to_pybytes())
        return iter([] if body is None else [flight.Result(body)])

    @boundary
    def list_actions(self, _context: flight.ServerCallContext) -> list[tuple[str, str]]:
        """Return the names and descriptions of all actions."""
        return [(name, text) for name, (text, _) in ACTIONS.items()]

    @boundary
    def list_flights(self, _context: flight.ServerCallContext, _criteria: bytes) -> Iterator[flight.FlightInfo]:
        """Return nothing: clients find tables by metadata commands."""
        return iter(())


@dataclass(frozen=True, slots=True)
class Continued:
    """The state of the clients of a server's former process, and the sockets of each port."""

    state: bytes
    sockets: Sequence[Sequence[socket.socket]]


class FlightSqlServer(_Port):
    """A Flight SQL server for `database`; it listens as soon as it is constructed.

    If `config` sets one, a second port accepts clients that show a certificate. `stop` is called when an admin drains
    the server.

    A server that is given the state of another process's clients continues for these clients. It answers nobody until
    `take_over` gives it that process's sockets. `pause` prepares that for the next process.
    """

    def __init__(  # noqa: PLR0913 - all but three have names at the call
        self,
        database: BackendDatabase,
        config: ServerConfig,
        limits: LimitsConfig | None = None,
        *,
        functions: Iterable[str] = (),
        flight_limits: FlightLimits | None = None,
        stop: Callable[[], None] | None = None,
        login: Login | None = None,
        continued: "Continued | None" = None,
    ) -> None:
        login = login or Login(AccessStore(None), AuthConfig(), config.read_token())
        config.check_exposure(asks_nobody=login.is_open)
        given = limits or LimitsConfig()
        bounds = flight_limits or FlightLimits.of(given)
        core = Core(database, bounds, sql_info(functions, statement_bytes=given.sql_bytes), login, stop)
        hide_tracebacks()
        if continued is not None:
            core.draining.set()  # nobody can know the ports that gRPC opens first, but somebody can guess one
        self.host, port = config.address
        tls = config.read_tls()
        self._scheme = "grpc" if tls is None else "grpc+tls"
        certificates = {} if tls is None else {"tls_certificates": [(tls.certificate, tls.key)]}
        port = port if continued is None else 0
        location = _location(self.host, port, encrypted=tls is not None)
        options = {"auth_handler": Handshake(login), **certificates}
        super().__init__(core, location, CallFactory(login, activity=core.activity), **options)
        self._ports: list[_Port] = [self]
        self._make: list[Callable[[], _Port]] = [
            lambda: _Port(
                core,
                _location(self.host, 0, encrypted=tls is not None),
                CallFactory(login, activity=core.activity),
                **options,
            )
        ]
        if tls is not None and tls.address is not None:
            host, other = tls.address

            def certified(other: int = 0) -> _Port:
                # Without a handshake handler: with one, gRPC does not pass on the certificate's name.
                return _Port(
                    core,
                    _location(host, other, encrypted=True),
                    CallFactory(login, certificates=True, activity=core.activity),
                    verify_client=True,
                    root_certificates=tls.client_authority,
                    **certificates,
                )

            self._ports.append(certified(other if continued is None else 0))
            self._make.append(certified)
        self._numbers = [int(one.port) for one in self._ports]
        if continued is not None:
            continue_from(continued.state, core)

    def take_over(self, sockets: Sequence[Sequence[socket.socket]]) -> None:
        """Accept connections from the sockets of another process, which no longer does."""
        self._core.draining.clear()
        self._take(sockets)

    def _take(self, sockets: Sequence[Sequence[socket.socket]]) -> None:
        """Accept connections from these sockets, which are in the order of the ports."""
        self._numbers = [int(some[0].getsockname()[1]) for some in sockets]
        for port, some in zip(self._ports, sockets, strict=True):
            replace_listeners(int(port.port), some)
            for one in some:
                one.close()

    @property
    def number(self) -> int:
        """Return the port that clients connect to."""
        return self._numbers[0]

    @property
    def uri(self) -> str:
        """Return the address clients connect to."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self._scheme}://{host}:{self.number}"

    @property
    def certified_port(self) -> int | None:
        """Return the port for clients that show a certificate, if there is one."""
        return self._numbers[1] if len(self._numbers) > 1 else None

    def pause(self, seconds: float) -> list[list[socket.socket]]:
        """Let new connections wait, and close the present ones once their calls have ended, within `seconds`.

        Returns the sockets in which new connections wait. Until then, calls are answered. The server ends, or resumes.

        Raises:
            InternalError: the sockets cannot be passed on; nothing has changed.
        """
        sockets = list[list[socket.socket]]()
        try:
            for number in self._numbers:
                sockets.append(close_doors(number))
        except BaseException:
            if sockets:
                self.resume([*sockets, *map(listeners, self._numbers[len(sockets) :])])
            raise
        self._shut_down(seconds)
        return sockets

    def resume(self, sockets: Sequence[Sequence[socket.socket]]) -> None:
        """Accept the connections that wait since `pause`."""
        self._ports = [make() for make in self._make]
        self._take(sockets)

    def drain(self, seconds: float) -> bool:
        """Refuse new statements, let running streams finish for `seconds`, then cancel them and stop.

        Returns whether all calls have ended: the call of a client that neither reads nor disconnects cannot be ended
        here.
        """
        core = self._core
        core.draining.set()
        deadline = time.monotonic() + seconds
        while core.slots.running and time.monotonic() < deadline:
            time.sleep(core.limits.poll_seconds)
        core.slots.cancel_all()
        ended = self._shut_down(_STOP_SECONDS)
        core.statements.clear()
        core.sessions.clear()
        return ended

    def _shut_down(self, seconds: float) -> bool:
        """Close the ports' connections as their calls end; return whether all have ended within `seconds`."""
        stopping = [threading.Thread(target=port.shutdown, name="shutdown", daemon=True) for port in self._ports]
        for thread in stopping:
            thread.start()
        deadline = time.monotonic() + seconds
        for thread in stopping:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in stopping)


def _location(host: str, port: int, *, encrypted: bool) -> flight.Location:
    return flight.Location.for_grpc_tls(host, port) if encrypted else flight.Location.for_grpc_tcp(host, port)
