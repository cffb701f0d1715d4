"""The Flight SQL server: decodes calls, hands them on, and lets only Flight statuses out."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator

from pyarrow import flight

from flightllm.config import LimitsConfig, RecoveryConfig, ServerConfig
from flightllm.flight.actions import ACTIONS, act
from flightllm.flight.auth import CallFactory, Handshake
from flightllm.flight.backend import Database
from flightllm.flight.core import CALL, Core
from flightllm.flight.errors import boundary, hide_tracebacks
from flightllm.flight.infos import DONE, NO_COLUMNS, flight_info, result_schema
from flightllm.flight.limits import FlightLimits
from flightllm.flight.messages import unpack, unpack_as
from flightllm.flight.metadata import is_metadata, metadata_table
from flightllm.flight.puts import put
from flightllm.flight.results import ResultStream
from flightllm.flight.sql_info import sql_info

_STOP_SECONDS = 5.0
"""How long cancelled calls may take to end."""


class FlightSqlServer(flight.FlightServerBase):
    """Serve `database` over Flight SQL; it listens as soon as it is made.

    Calls arrive on gRPC's own threads, several at once. `stop` is called where an administrator drains the server.
    """

    def __init__(
        self,
        database: Database,
        config: ServerConfig,
        limits: LimitsConfig | None = None,
        *,
        functions: Iterable[str] = (),
        flight_limits: FlightLimits | None = None,
        recovery: RecoveryConfig | None = None,
        stop: Callable[[], None] | None = None,
    ) -> None:
        given = limits or LimitsConfig()
        bounds = flight_limits or FlightLimits(
            batch_bytes=given.batch_bytes,
            upload_bytes=given.upload_bytes,
            concurrent_queries=given.concurrent_queries,
            stalled_seconds=(recovery or RecoveryConfig()).stalled_seconds,
        )
        self._core = Core(database, bounds, sql_info(functions, statement_bytes=given.sql_bytes), stop)
        hide_tracebacks()
        self.host, port = config.address
        super().__init__(
            flight.Location.for_grpc_tcp(self.host, port),
            auth_handler=Handshake(),
            middleware={CALL: CallFactory(config.read_token())},
        )

    @property
    def uri(self) -> str:
        """Return the address clients connect to."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"grpc://{host}:{self.port}"

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
            return flight.RecordBatchStream(metadata_table(command, self._core.database.catalog, self._core.info))
        handle = unpack_as("TicketStatementQuery", ticket.ticket).statement_handle
        if handle == DONE:
            return flight.GeneratorStream(NO_COLUMNS, iter(()))
        result = self._core.statements.get(handle).take()
        rows = ResultStream(result, self._core.limits, self._core.slots, context.is_cancelled)
        return flight.GeneratorStream(result.schema, rows)

    @boundary
    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        """Bind parameters, run an update or take in a table."""
        answer = put(self._core, context, unpack(descriptor.command or b""), reader)
        writer.write(answer.SerializeToString())

    @boundary
    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[flight.Result]:
        """Run an action."""
        body = act(self._core, context, action.type, action.body.to_pybytes())
        return iter([] if body is None else [flight.Result(body)])

    def list_actions(self, _context: flight.ServerCallContext) -> list[tuple[str, str]]:
        """Return the actions there are."""
        return [(name, text) for name, (text, _) in ACTIONS.items()]

    @boundary
    def list_flights(self, _context: flight.ServerCallContext, _criteria: bytes) -> Iterator[flight.FlightInfo]:
        """Return nothing: tables are found by metadata commands."""
        return iter(())

    def drain(self, seconds: float) -> bool:
        """Refuse new statements, let running streams finish for `seconds`, then cancel them and stop.

        Returns whether all calls have ended: the one of a client that neither reads nor goes cannot be ended from here.
        """
        core = self._core
        core.draining.set()
        deadline = time.monotonic() + seconds
        while core.slots.running and time.monotonic() < deadline:
            time.sleep(core.limits.poll_seconds)
        core.slots.cancel_all()
        stopping = threading.Thread(target=self.shutdown, name="shutdown", daemon=True)
        stopping.start()
        stopping.join(_STOP_SECONDS)
        core.statements.clear()
        core.sessions.clear()
        return not stopping.is_alive()
