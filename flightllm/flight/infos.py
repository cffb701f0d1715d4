"""GetFlightInfo and GetSchema: the schema of a command's result, and the tickets for fetching it."""

from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa
from pyarrow import flight

from flightllm.errors import UnsupportedError
from flightllm.flight.auth import call_of
from flightllm.flight.backend import BackendSession
from flightllm.flight.core import Core, check_transaction
from flightllm.flight.endpoints import endpoints, ticket
from flightllm.flight.messages import Command
from flightllm.flight.metadata import is_metadata, metadata_schema
from flightllm.flight.statements import FlightStatement, promised
from flightllm.flight.updates import client_row_count, run_statement
from flightllm.sql.parameters import each_row

DONE = b"done"
"""The statement handle of an update. The update ran in GetFlightInfo already, so DoGet returns no rows for it."""
NO_COLUMNS = pa.schema([])


def flight_info(
    core: Core, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor, command: Command
) -> flight.FlightInfo:
    """Plan a query, or run an update. Updates run here, as ADBC's `execute` can skip fetching an empty result."""
    if is_metadata(command):
        return _info(metadata_schema(command), descriptor, [flight.FlightEndpoint(descriptor.command, [])])
    core.refuse_when_draining()
    settings = call_of(context).settings
    if command.name == "CommandPreparedStatementQuery":
        prepared = core.prepared_of(context, command.message.prepared_statement_handle)
        statement = FlightStatement(prepared.session, prepared.text, prepared.values, settings, names=prepared.names)
        statement.kept = None if statement.parameters is not None else prepared.description.plan
        is_update: bool | None = prepared.description.is_update
    else:
        text = _text(command)
        statement = FlightStatement(core.session(context), text, None, settings)
        check_transaction(statement.session, command.message)
        is_update = None
    statement.parts = _parts(statement.session, settings)
    outcome = run_statement(core, context, statement, is_update=is_update)
    returned, result = outcome.returned, outcome.planned
    if returned is not None:
        statement.parts = 1
        statement.keep(returned.rows)
        parts = endpoints(core, core.statements.add(statement), 1)
        return _info(returned.rows.schema, descriptor, parts, records=returned.rows.num_rows)
    if result is None:
        count = client_row_count(outcome.affected)
        return _info(NO_COLUMNS, descriptor, [flight.FlightEndpoint(ticket(DONE), [])], records=count)
    parts = endpoints(core, core.statements.add(statement), statement.parts)
    core.planned.add(statement)
    return _info(result.schema, descriptor, parts, metadata=result.query.query_id.encode())


def result_schema(core: Core, context: flight.ServerCallContext, command: Command) -> pa.Schema:
    """Return the schema of a command's result without running the command."""
    if is_metadata(command):
        return metadata_schema(command)
    row: pa.RecordBatch | None = None
    names: Sequence[str] = ()
    if command.name == "CommandPreparedStatementQuery":
        prepared = core.prepared_of(context, command.message.prepared_statement_handle)
        session, text, names = prepared.session, prepared.text, prepared.names
        row = next(each_row(prepared.values), None)
    else:
        session, text = core.session(context), _text(command)
    describe = (
        partial(session.describe, text, row, call_of(context).settings)
        if isinstance(text, str)
        else partial(session.describe_plan, text)
    )
    return promised(core.run(context, session, describe, text=text).schema, names)


def _text(command: Command) -> str | bytes:
    """Return the SQL or the Substrait plan of a command.

    Raises:
        UnsupportedError: the command is not a query.
    """
    if command.name == "CommandStatementQuery":
        return str(command.message.query)
    if command.name == "CommandStatementSubstraitPlan":
        return bytes(command.message.plan.plan)
    raise UnsupportedError(f"{command.name} is not a query: send it by DoPut, or send SQL text or a Substrait plan")


def _parts(session: BackendSession, settings: Mapping[str, str]) -> int:
    """Return the option `endpoints` of the call, or else of its session; planning refuses an invalid number."""
    asked = settings.get("endpoints") or session.get_options().get("endpoints", "1")
    return int(asked) if asked.isdecimal() else 1


def _info(
    schema: pa.Schema,
    descriptor: flight.FlightDescriptor,
    parts: Sequence[flight.FlightEndpoint],
    *,
    records: int = -1,
    metadata: bytes = b"",
) -> flight.FlightInfo:
    """Return a FlightInfo with these endpoints; several endpoints have no order.

    The endpoints have no location, so clients fetch them over the same connection.
    """
    ordered = len(parts) == 1
    return flight.FlightInfo(schema, descriptor, parts, records, -1, ordered=ordered, app_metadata=metadata)
