"""DoPut: bind parameters, run updates, ingest tables."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import flight

from flightllm.catalog import IngestMode
from flightllm.common.names import CATALOG
from flightllm.errors import InvalidInputError, NotFoundError, SqlError, UnsupportedError
from flightllm.flight.auth import call_of
from flightllm.flight.backend import BackendSession
from flightllm.flight.bindings import bind
from flightllm.flight.core import Core, check_transaction
from flightllm.flight.feed import UploadQueue
from flightllm.flight.messages import Command, sql_message
from flightllm.flight.statements import Prepared
from flightllm.flight.updates import GRACE_SECONDS, client_row_count, run_update
from flightllm.flight.uploads import Upload
from flightllm.flight.work import CallDeadline, await_end, begin
from flightllm.observe.query_record import CancelToken

_T = TypeVar("_T")
_CREATE, _FAIL_MISSING = 1, 2
"""Values of TableNotExistOption."""
_FAIL_EXISTING, _APPEND, _REPLACE = 1, 2, 3
"""Values of TableExistsOption."""
_MODES: Mapping[tuple[int, int], IngestMode] = {
    (_CREATE, _FAIL_EXISTING): "create",
    (_CREATE, _APPEND): "create_append",
    (_CREATE, _REPLACE): "replace",
    (_FAIL_MISSING, _APPEND): "append",
    (_FAIL_MISSING, _REPLACE): "replace",
}
"""The ingest mode for `if_not_exist` and `if_exists`; an absent option fails, as SQL's CREATE and INSERT do."""


def put(core: Core, context: flight.ServerCallContext, command: Command, reader: Any) -> Any:
    """Run one DoPut and return the message to answer with."""
    if command.name == "CommandPreparedStatementQuery":
        return _bind(core, context, command, reader)
    core.refuse_when_draining()
    if command.name == "CommandStatementIngest":
        count = _ingest(core, context, command, reader)
    elif command.name == "CommandStatementUpdate":
        session, sql = core.session(context), command.message.query
        check_transaction(session, command.message)
        count = run_update(core, context, session, sql, None, asks_kind=True)
    elif command.name == "CommandPreparedStatementUpdate":
        count = _prepared_update(core, context, command, reader)
    elif command.name == "CommandStatementSubstraitPlan":
        raise UnsupportedError("a Substrait plan cannot change data: execute it as a query, or send the change as SQL")
    else:
        raise UnsupportedError(f"{command.name} cannot be sent by DoPut: send it by GetFlightInfo")
    return sql_message("DoPutUpdateResult", record_count=client_row_count(count))


def _bind(core: Core, context: flight.ServerCallContext, command: Command, reader: Any) -> Any:
    prepared = core.prepared_of(context, command.message.prepared_statement_handle)
    values = _parameters(core, context, prepared, reader)
    handle = bind(core.prepared, core.bound, prepared, values)
    return sql_message("DoPutPreparedStatementResult", prepared_statement_handle=handle)


def _prepared_update(core: Core, context: flight.ServerCallContext, command: Command, reader: Any) -> int:
    prepared = core.prepared_of(context, command.message.prepared_statement_handle)
    if not prepared.description.is_update:
        raise InvalidInputError(
            "the statement is a query, not an update: execute it as a query, once for each row of parameters"
        )
    parameters = _parameters(core, context, prepared, reader)
    if parameters is None:
        parameters = prepared.values
    return run_update(core, context, prepared.session, str(prepared.text), parameters)


def _parameters(core: Core, context: flight.ServerCallContext, prepared: Prepared, reader: Any) -> pa.Table | None:
    """Return the uploaded rows of values, or None for an upload without columns; columns are in parameter order.

    Raises:
        SqlError: the number of columns differs from the statement's number of parameters.
    """

    def read(upload: Upload, stop: CancelToken) -> pa.Table:
        del stop
        return upload.read_all()

    values = _take_in(core, context, prepared.session, reader, read, keeps=True)
    if values.num_columns == 0:
        return None
    wanted = len(prepared.description.parameters)
    if values.num_columns != wanted:
        raise SqlError(f"the statement takes {wanted} parameters, but {values.num_columns} are bound")
    names = values.column_names
    if all(name.isdecimal() for name in names) and len(set(names)) == len(names):
        return values.select(sorted(names, key=int))
    return values


def _ingest(core: Core, context: flight.ServerCallContext, command: Command, reader: Any) -> int:
    message, session = command.message, core.session(context)
    check_transaction(session, message)
    session.check_writable(call_of(context).settings)
    if message.catalog not in ("", CATALOG):
        raise NotFoundError(f"there is no catalog {message.catalog!r}; the only one is {CATALOG!r}")
    if not message.table:
        raise InvalidInputError("the upload names no table: name the table to create or to append to")
    if message.options:
        raise UnsupportedError(
            f"unknown ingest option {min(message.options)!r}: this server has no ingest options; remove it"
        )
    mode = _mode(message.table_definition_options)
    if mode == "replace" and message.table_definition_options.if_not_exist != _CREATE:
        _check_exists(session, message)

    def ingest(upload: Upload, stop: CancelToken) -> int:
        if not upload.schema:
            raise InvalidInputError("the upload has no columns: send at least one column")
        return session.ingest(
            message.table,
            upload,
            upload.declared,
            mode,
            db_schema=message.schema,
            temporary=message.temporary,
            cancelled=stop,
        )

    return _take_in(core, context, session, reader, ingest)


def _take_in(
    core: Core,
    context: flight.ServerCallContext,
    session: BackendSession,
    reader: Any,
    work: Callable[[Upload, CancelToken], _T],
    *,
    keeps: bool = False,
) -> _T:
    """Return the result of `work` with an upload; it needs a place, and has the time limit of a statement.

    `keeps` says that `work` has all rows in memory at once.
    """
    _ = reader.schema  # wait for the client before taking a place
    stop = CancelToken()
    place = core.admit(context, session, stop.set)
    patience = CallDeadline(context.is_cancelled, session.time_limit(call_of(context).settings).start())
    feed = UploadQueue(reader, core.limits, stop, patience, place, core.uploading, keeps=keeps)
    with core.database.queries.spans.attached(call_of(context).traceparent):
        limits = core.limits
        future = begin(
            lambda: work(Upload(feed, limits.upload_bytes, patience.deadline, core.received.add), stop), place
        )
    try:
        feed.read(future)
        return await_end(future, place, patience, stop=stop.because, grace_seconds=GRACE_SECONDS)
    finally:
        feed.close()


def _mode(options: Any) -> IngestMode:
    mode = _MODES.get((options.if_not_exist or _FAIL_MISSING, options.if_exists or _FAIL_EXISTING))
    if mode is None:
        raise InvalidInputError(
            "the upload can neither create the table nor change it: choose create, append or replace"
        )
    return mode


def _check_exists(session: BackendSession, message: Any) -> None:
    if not session.table_exists(message.table, message.schema, temporary=message.temporary):
        raise NotFoundError(f"there is no table {message.table!r} to replace: let the upload create it")
