"""GetFlightInfo and GetSchema: what a command will return, and the ticket to fetch it with."""

from functools import partial

import pyarrow as pa
from pyarrow import flight

from flightllm.errors import UnsupportedError
from flightllm.flight.backend import Session
from flightllm.flight.core import Core, call_of, refuse_transaction
from flightllm.flight.messages import Command, pack, sql_message
from flightllm.flight.metadata import is_metadata, metadata_schema
from flightllm.flight.statements import Statement
from flightllm.flight.updates import run_update

DONE = b"done"
"""Statement handle of an update: it ran in GetFlightInfo, and fetching it gives no rows."""
NO_COLUMNS = pa.schema([])


def flight_info(
    core: Core, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor, command: Command
) -> flight.FlightInfo:
    """Plan a query, or run an update: ADBC's `execute` of one may never ask for its empty result."""
    if is_metadata(command):
        return _info(metadata_schema(command), descriptor, flight.Ticket(descriptor.command))
    core.refuse_when_draining()
    session, sql, parameters, is_update = _resolve(core, context, command)
    if is_update:
        count = run_update(core, context, session, sql, parameters)
        return _info(NO_COLUMNS, descriptor, _ticket(DONE), records=count)
    statement = Statement(session, sql, parameters, call_of(context).settings)
    result = core.run(context, session, statement.plan, discard=lambda _: statement.drop())
    ticket = _ticket(core.statements.add(statement))
    return _info(result.schema, descriptor, ticket, metadata=result.query.query_id.encode())


def result_schema(core: Core, context: flight.ServerCallContext, command: Command) -> pa.Schema:
    """Return the schema a command's result has, running nothing."""
    if is_metadata(command):
        return metadata_schema(command)
    if command.name == "CommandPreparedStatementQuery":
        return core.prepared.get(command.message.prepared_statement_handle).description.schema
    if command.name == "CommandStatementQuery":
        session = core.session(context)
        return core.run(context, session, partial(session.describe, command.message.query)).schema
    raise UnsupportedError(f"{command.name} has no schema here")


def _resolve(
    core: Core, context: flight.ServerCallContext, command: Command
) -> tuple[Session, str, pa.Table | None, bool]:
    """Return whose statement it is, its text and parameters, and whether it is an update."""
    if command.name == "CommandPreparedStatementQuery":
        prepared = core.prepared.get(command.message.prepared_statement_handle)
        return prepared.session, prepared.sql, prepared.parameters, prepared.description.is_update
    if command.name == "CommandStatementQuery":
        refuse_transaction(command.message)
        session, sql = core.session(context), command.message.query
        return session, sql, None, session.is_update(sql)
    raise UnsupportedError(f"{command.name} is not supported; send SQL text")


def _ticket(handle: bytes) -> flight.Ticket:
    return flight.Ticket(pack(sql_message("TicketStatementQuery", statement_handle=handle)))


def _info(
    schema: pa.Schema,
    descriptor: flight.FlightDescriptor,
    ticket: flight.Ticket,
    *,
    records: int = -1,
    metadata: bytes = b"",
) -> flight.FlightInfo:
    """Return one endpoint without location: it is fetched over the same connection."""
    endpoint = flight.FlightEndpoint(ticket, [])
    return flight.FlightInfo(schema, descriptor, [endpoint], records, -1, ordered=True, app_metadata=metadata)
