"""DoAction: prepared statements, session options, cancelling, and administration."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa
from pyarrow import flight

from flightllm.errors import InvalidInputError, NotFoundError, UnsupportedError
from flightllm.flight.auth import call_of
from flightllm.flight.core import Core, check_transaction
from flightllm.flight.endpoints import renewed
from flightllm.flight.infos import DONE
from flightllm.flight.messages import flight_message, pack, parse_flight, sql_message, unpack, unpack_as
from flightllm.flight.statements import Cancelled, Prepared

_Handler = Callable[[Core, flight.ServerCallContext, bytes], bytes | None]
_INVALID_NAME, _INVALID_VALUE = 1, 2
_COMMIT, _ROLLBACK = 1, 2
"""Values of EndTransaction."""


def act(core: Core, context: flight.ServerCallContext, kind: str, body: bytes) -> bytes | None:
    """Run one action and return the body of its result, or None for an action without a result.

    Raises:
        UnsupportedError: this server does not have the action.
    """
    found = ACTIONS.get(kind)
    if found is None:
        raise UnsupportedError(f"the action {kind!r} is not supported; supported actions: {', '.join(sorted(ACTIONS))}")
    return found[1](core, context, body)


def _prepare(core: Core, context: flight.ServerCallContext, body: bytes) -> bytes:
    request = unpack_as("ActionCreatePreparedStatementRequest", body)
    session = core.session(context)
    check_transaction(session, request)
    describe = partial(session.describe, request.query, None, call_of(context).settings)
    description = core.run(context, session, describe, text=request.query)
    return _prepared(core, Prepared(session, request.query, description))


def _prepare_plan(core: Core, context: flight.ServerCallContext, body: bytes) -> bytes:
    request = unpack_as("ActionCreatePreparedSubstraitPlanRequest", body)
    session = core.session(context)
    check_transaction(session, request)
    description = core.run(context, session, partial(session.describe_plan, request.plan.plan), text=request.plan.plan)
    return _prepared(core, Prepared(session, request.plan.plan, description))


def _prepared(core: Core, statement: Prepared) -> bytes:
    """Keep a prepared statement and return its description."""
    core.refuse_when_draining()
    description = statement.description
    returns_rows = not description.is_update or len(description.schema) > 0
    core.kept.add(description.plan)
    result = sql_message(
        "ActionCreatePreparedStatementResult",
        prepared_statement_handle=core.prepared.add(statement),
        # Old JDBC drivers take a schema without columns for an update and a missing parameter schema for an error.
        # Arrow's ODBC driver crashes where the schema is missing.
        dataset_schema=_ipc(description.schema),
        parameter_schema=_ipc(description.parameters),
        is_update=not returns_rows,
    )
    return pack(result)


def _close_prepared(core: Core, context: flight.ServerCallContext, body: bytes) -> None:
    handle = unpack_as("ActionClosePreparedStatementRequest", body).prepared_statement_handle
    with suppress(NotFoundError):  # a statement can be closed twice
        core.prepared_of(context, handle)
        core.prepared.remove(handle)


def _cancel_flight_info(core: Core, context: flight.ServerCallContext, body: bytes) -> bytes:
    status = _cancel(core, context, parse_flight("CancelFlightInfoRequest", body).info)
    return _encoded(flight_message("CancelFlightInfoResult", status=status))


def _cancel_query(core: Core, context: flight.ServerCallContext, body: bytes) -> bytes:
    status = _cancel(core, context, unpack_as("ActionCancelQueryRequest", body).info)
    return pack(sql_message("ActionCancelQueryResult", result=status))


def _cancel_by_id(core: Core, context: flight.ServerCallContext, body: bytes) -> None:
    """Cancel a query by the id that `system.queries` shows; an admin can cancel the queries of all users."""
    core.query_of(core.principal(context), body.decode("utf-8", "replace")).cancel()


def _query_progress(core: Core, context: flight.ServerCallContext, body: bytes) -> bytes:
    """Return as JSON the progress of the query with the id in the body (the `app_metadata` of its FlightInfo)."""
    return json.dumps(core.query_of(core.principal(context), body.decode("utf-8", "replace")).progress()).encode()


def _drain(core: Core, context: flight.ServerCallContext, _body: bytes) -> bytes:
    """Refuse new statements, let running ones finish, and stop the server; return the number of running statements."""
    core.check_admin(context, "draining the server")
    if core.stop is None:
        raise UnsupportedError("this server runs inside another program and cannot be drained: stop that program")
    core.draining.set()
    core.stop()
    return str(core.slots.running).encode()


def _quarantine(core: Core, context: flight.ServerCallContext, _body: bytes) -> bytes:
    """List the statements that are refused because they were running when the server died, as JSON."""
    core.check_admin(context, "the list of refused statements")
    return json.dumps(
        [
            {
                "name": one.name,
                "seconds": round(one.seconds),
                "user": one.user,
                "query_id": one.query_id,
                "sql": one.text,
            }
            for one in core.database.quarantine.current()
        ]
    ).encode()


def _lift_quarantine(core: Core, context: flight.ServerCallContext, body: bytes) -> None:
    """Let a refused statement run again."""
    core.check_admin(context, "letting a refused statement run")
    core.database.quarantine.lift(body.decode("utf-8", "replace"))


def _cancel_batch(core: Core, context: flight.ServerCallContext, body: bytes) -> None:
    """Cancel a deferred statement by the id that `system.batches` shows; an admin can cancel those of all users."""
    core.database.deferred.cancel(body.decode("utf-8", "replace"), core.principal(context))


def _remove_batch(core: Core, context: flight.ServerCallContext, body: bytes) -> None:
    """Remove an ended deferred statement by its id; an admin can remove those of all users."""
    core.database.deferred.remove(body.decode("utf-8", "replace"), core.principal(context))


def _cancel(core: Core, context: flight.ServerCallContext, serialized: bytes) -> Cancelled:
    """Cancel the query of a serialized FlightInfo; any of its tickets is enough."""
    try:
        info = flight.FlightInfo.deserialize(serialized)
        tickets = [unpack(endpoint.ticket.ticket) for endpoint in info.endpoints]
    except pa.ArrowException as exc:
        raise InvalidInputError("the request to cancel holds no FlightInfo: send the FlightInfo of the query") from exc
    handles = [ticket.message.statement_handle for ticket in tickets if ticket.name == "TicketStatementQuery"]
    asked = [core.statement_of(context, handle)[0] for handle in handles if handle != DONE]
    came_to = {statement.cancel() for statement in {id(found): found for found in asked}.values()}
    order = (Cancelled.CANCELLING, Cancelled.CANCELLED)
    return next((outcome for outcome in order if outcome in came_to), Cancelled.NOT_CANCELLABLE)


def _renew(core: Core, context: flight.ServerCallContext, body: bytes) -> bytes:
    given = parse_flight("RenewFlightEndpointRequest", body).endpoint
    serialized: bytes = renewed(core, context, given).serialize()
    return serialized


def _set_options(core: Core, context: flight.ServerCallContext, body: bytes) -> bytes:
    """Set options one by one, and report the wrong ones; a schema or catalog that is missing is NOT_FOUND."""
    session, result = core.session(context), flight_message("SetSessionOptionsResult")
    known, kinds = session.get_options(), core.option_kinds.setdefault(session, {})
    options = parse_flight("SetSessionOptionsRequest", body).session_options
    for key, value in options.items():
        name, kind = key.lower().removeprefix("flightllm."), value.WhichOneof("option_value")
        try:
            if kind is not None:
                session.set_option(name, _option_text(value))
                kinds[name] = kind
            else:
                session.reset_option(name)
                kinds.pop(name, None)
        except (InvalidInputError, NotFoundError) as error:
            if len(options) == 1 and isinstance(error, NotFoundError):
                raise
            result.errors[key].value = _INVALID_VALUE if name in known else _INVALID_NAME
    return _encoded(result)


def _get_options(core: Core, context: flight.ServerCallContext, _body: bytes) -> bytes:
    session, result = core.session(context), flight_message("GetSessionOptionsResult")
    kinds = core.option_kinds.get(session, {})
    for key, text in session.get_options().items():
        kind, value = _option_value(text, kinds.get(key, ""))
        setattr(result.session_options[key], kind, value)
    return _encoded(result)


def _close_session(core: Core, context: flight.ServerCallContext, _body: bytes) -> bytes:
    core.sessions.close(call_of(context), core.principal(context), context.peer())
    return _encoded(flight_message("CloseSessionResult", status=1))


def _begin_transaction(core: Core, context: flight.ServerCallContext, body: bytes) -> bytes:
    unpack_as("ActionBeginTransactionRequest", body)
    return pack(sql_message("ActionBeginTransactionResult", transaction_id=core.session(context).begin()))


def _end_transaction(core: Core, context: flight.ServerCallContext, body: bytes) -> None:
    request = unpack_as("ActionEndTransactionRequest", body)
    if request.action not in (_COMMIT, _ROLLBACK):
        raise InvalidInputError("unknown way to end a transaction: send COMMIT or ROLLBACK")
    core.session(context).end(request.transaction_id, commit=request.action == _COMMIT)


def _no_savepoints(_core: Core, _context: flight.ServerCallContext, _body: bytes) -> bytes:
    raise UnsupportedError("savepoints are not supported: every statement commits by itself")


def _option_text(value: Any) -> str:
    """Return a session option's value as text; the values of a list are joined by commas."""
    kind = value.WhichOneof("option_value")
    given = getattr(value, kind)
    if kind == "bool_value":
        return "true" if given else "false"
    return ",".join(given.values) if kind == "string_list_value" else str(given)


def _encoded(message: Any) -> bytes:
    encoded: bytes = message.SerializeToString()
    return encoded


def _option_value(text: str, kind: str) -> tuple[str, str | bool | int | float]:
    """Return the kind and value of an option with this text; `kind` is used if the text still has that type."""
    try:
        match kind:
            case "bool_value":
                return kind, {"on": True, "true": True, "off": False, "false": False}[text]
            case "int64_value":
                return kind, int(text.removesuffix(".0"))
            case "double_value":
                return kind, float(text)
    except (KeyError, ValueError):
        pass
    return "string_value", text


def _ipc(schema: pa.Schema) -> bytes:
    encoded: bytes = schema.serialize().to_pybytes()
    return encoded


ACTIONS: Mapping[str, tuple[str, _Handler]] = {
    "CreatePreparedStatement": ("Plan a statement for later execution.", _prepare),
    "CreatePreparedSubstraitPlan": ("Plan a Substrait plan for later execution.", _prepare_plan),
    "ClosePreparedStatement": ("Forget a prepared statement.", _close_prepared),
    "CancelFlightInfo": ("Stop a query.", _cancel_flight_info),
    "CancelQuery": ("Stop a query (older clients).", _cancel_query),
    "CancelQueryById": ("Stop the query with the id in the body.", _cancel_by_id),
    "CancelBatch": ("Stop the deferred statement with the id in the body.", _cancel_batch),
    "RemoveBatch": ("Remove the ended deferred statement with the id in the body.", _remove_batch),
    "GetQueryProgress": ("Return as JSON the progress of the query with the id in the body.", _query_progress),
    "RenewFlightEndpoint": ("Extend the expiration time of an endpoint.", _renew),
    "SetSessionOptions": ("Change settings of the session.", _set_options),
    "GetSessionOptions": ("List settings of the session.", _get_options),
    "CloseSession": ("End the session.", _close_session),
    "BeginTransaction": ("Begin a transaction, in which every statement commits by itself.", _begin_transaction),
    "EndTransaction": ("End a transaction; one that changed something cannot be rolled back.", _end_transaction),
    "BeginSavepoint": ("Not supported.", _no_savepoints),
    "EndSavepoint": ("Not supported.", _no_savepoints),
    # For administrators:
    "Drain": ("Let running statements finish, then stop the server.", _drain),
    "Quarantine": ("List the statements refused since the server died.", _quarantine),
    "LiftQuarantine": ("Let the refused statement named in the body run again.", _lift_quarantine),
}
"""Each action's description and function."""
