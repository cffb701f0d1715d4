"""DoPut: bind parameters, run updates, take in tables."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyarrow import flight

from flightllm.errors import InvalidInputError, NotFoundError, UnsupportedError
from flightllm.flight.backend import IngestMode
from flightllm.flight.core import Core, call_of, refuse_transaction
from flightllm.flight.messages import Command, sql_message
from flightllm.flight.metadata import CATALOG
from flightllm.flight.updates import run_update
from flightllm.flight.uploads import Upload

_CREATE, _APPEND, _REPLACE = 1, 2, 3
"""Values of TableNotExistOption (create) and TableExistsOption (append, replace)."""
_MODES: Mapping[tuple[bool, int], IngestMode] = {
    (True, 0): "create",
    (True, 1): "create",
    (False, _APPEND): "append",
    (True, _APPEND): "create_append",
    (True, _REPLACE): "replace",
    (False, _REPLACE): "replace",
}


def put(core: Core, context: flight.ServerCallContext, command: Command, reader: Any) -> Any:
    """Run one DoPut and return the message to answer with."""
    if command.name == "CommandPreparedStatementQuery":
        return _bind(core, command, reader)
    core.refuse_when_draining()
    if command.name == "CommandStatementIngest":
        count = _ingest(core, context, command, reader)
    elif command.name == "CommandStatementUpdate":
        refuse_transaction(command.message)
        count = run_update(core, context, core.session(context), command.message.query, None)
    elif command.name == "CommandPreparedStatementUpdate":
        count = _prepared_update(core, context, command, reader)
    else:
        raise UnsupportedError(f"{command.name} cannot be sent by DoPut")
    return sql_message("DoPutUpdateResult", record_count=count)


def _bind(core: Core, command: Command, reader: Any) -> Any:
    handle = command.message.prepared_statement_handle
    prepared = core.prepared.get(handle)
    prepared.parameters = _parameters(core, reader)
    return sql_message("DoPutPreparedStatementResult", prepared_statement_handle=handle)


def _prepared_update(core: Core, context: flight.ServerCallContext, command: Command, reader: Any) -> int:
    prepared = core.prepared.get(command.message.prepared_statement_handle)
    if not prepared.description.is_update:
        raise InvalidInputError("the statement is a query: execute it as one, once for each row of parameters")
    parameters = _parameters(core, reader)
    if parameters is None:
        parameters = prepared.parameters
    return run_update(core, context, prepared.session, prepared.sql, parameters)


def _parameters(core: Core, reader: Any) -> pa.Table | None:
    """Return the rows of values sent, or None for an upload without columns; columns stand in parameter order."""
    values = Upload(reader, core.limits.upload_bytes, count=core.received.add).read_all()
    if values.num_columns == 0:
        return None
    names = values.column_names
    if all(name.isdecimal() for name in names) and len(set(names)) == len(names):
        return values.select(sorted(names, key=int))
    return values


def _ingest(core: Core, context: flight.ServerCallContext, command: Command, reader: Any) -> int:
    message = command.message
    refuse_transaction(message)
    if message.catalog not in ("", CATALOG):
        raise NotFoundError(f"there is no catalog {message.catalog!r}; the only one is {CATALOG!r}")
    if message.schema not in ("", "public"):
        raise UnsupportedError(f"tables are uploaded to the schema 'public', not {message.schema!r}")
    options = message.table_definition_options
    mode = _MODES.get((options.if_not_exist == _CREATE, options.if_exists))
    if mode is None:
        raise InvalidInputError(
            "the upload may neither create the table nor change it; choose create, append or replace"
        )
    session = core.session(context)
    place = core.place(context, session)
    try:  # in this thread, which alone may read the upload and lasts as long as it does
        deadline = session.time_limit(call_of(context).settings).start()
        upload = Upload(reader, core.limits.upload_bytes, deadline, core.received.add)
        with core.database.queries.spans.attached(call_of(context).traceparent):
            return session.ingest(message.table, upload, upload.schema, mode, temporary=message.temporary)
    finally:
        place.release()
