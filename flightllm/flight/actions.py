"""DoAction: prepared statements, session options, cancelling."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyarrow import flight

from flightllm.errors import InvalidInputError, NotFoundError, UnsupportedError
from flightllm.flight.backend import Session
from flightllm.flight.core import Core, call_of, refuse_transaction
from flightllm.flight.messages import flight_message, pack, parse_flight, sql_message, unpack, unpack_as
from flightllm.flight.metadata import CATALOG
from flightllm.flight.statements import Prepared

_Handler = Callable[[Core, flight.ServerCallContext, bytes], bytes | None]
_CANCELLED = 1
"""The value of both CANCEL_STATUS_CANCELLED and CANCEL_RESULT_CANCELLED."""
_INVALID_NAME, _INVALID_VALUE = 1, 2
_PLACE: Mapping[str, str] = {"catalog": CATALOG, "schema": "public"}
"""Where unqualified names are looked up; fixed."""


def act(core: Core, context: flight.ServerCallContext, kind: str, body: bytes) -> bytes | None:
    """Run one action and return its result's body, None if it has none.

    Raises:
        UnsupportedError: an action this server does not have.
    """
    found = ACTIONS.get(kind)
    if found is None:
        raise UnsupportedError(f"the action {kind!r} is not supported; there are: {', '.join(sorted(ACTIONS))}")
    return found[1](core, context, body)


def _prepare(core: Core, context: flight.ServerCallContext, body: bytes) -> bytes:
    request = unpack_as("ActionCreatePreparedStatementRequest", body)
    refuse_transaction(request)
    core.refuse_when_draining()
    session, sql = core.session(context), request.query
    description = session.describe(sql)
    handle = core.prepared.add(Prepared(session, sql, description))
    result = sql_message(
        "ActionCreatePreparedStatementResult",
        prepared_statement_handle=handle,
        # Old JDBC drivers take an empty schema for an update and a missing parameter schema for an error.
        dataset_schema=b"" if description.is_update else _ipc(description.schema),
        parameter_schema=_ipc(description.parameters),
        is_update=description.is_update,
    )
    return pack(result)


def _close_prepared(core: Core, _context: flight.ServerCallContext, body: bytes) -> None:
    core.prepared.remove(unpack_as("ActionClosePreparedStatementRequest", body).prepared_statement_handle)


def _cancel_flight_info(core: Core, _context: flight.ServerCallContext, body: bytes) -> bytes:
    _cancel(core, parse_flight("CancelFlightInfoRequest", body).info)
    result: bytes = flight_message("CancelFlightInfoResult", status=_CANCELLED).SerializeToString()
    return result


def _cancel_query(core: Core, _context: flight.ServerCallContext, body: bytes) -> bytes:
    _cancel(core, unpack_as("ActionCancelQueryRequest", body).info)
    return pack(sql_message("ActionCancelQueryResult", result=_CANCELLED))


def _cancel_by_id(core: Core, _context: flight.ServerCallContext, body: bytes) -> None:
    """Cancel a query by the id that `system.queries` shows, whoever started it."""
    core.database.queries.get(body.decode("utf-8", "replace")).cancel()


def _drain(core: Core, _context: flight.ServerCallContext, _body: bytes) -> bytes:
    """Refuse new statements, let running ones finish, and end the server; return how many run."""
    if core.stop is None:
        raise UnsupportedError("this server is part of another program, which ends it")
    core.draining.set()
    core.stop()
    return str(core.slots.running).encode()


def _quarantine(core: Core, _context: flight.ServerCallContext, _body: bytes) -> bytes:
    """List the statements that are refused because they were running when the server died, as JSON."""
    return json.dumps(
        [
            {"name": one.name, "seconds": round(one.seconds), "query_id": one.query_id, "sql": one.text}
            for one in core.database.quarantine.current()
        ]
    ).encode()


def _lift_quarantine(core: Core, _context: flight.ServerCallContext, body: bytes) -> None:
    """Let a refused statement run again."""
    core.database.quarantine.lift(body.decode("utf-8", "replace"))


def _cancel(core: Core, serialized: bytes) -> None:
    """Cancel the query of a serialized FlightInfo."""
    try:
        info = flight.FlightInfo.deserialize(serialized)
        tickets = [unpack(endpoint.ticket.ticket) for endpoint in info.endpoints]
    except pa.ArrowException as exc:
        raise InvalidInputError("the request to cancel holds no FlightInfo") from exc
    for ticket in tickets:
        if ticket.name == "TicketStatementQuery":
            core.statements.get(ticket.message.statement_handle).cancel()


def _renew(_core: Core, _context: flight.ServerCallContext, body: bytes) -> bytes:
    """Answer with the endpoint itself: endpoints here carry no expiration time."""
    endpoint: bytes = parse_flight("RenewFlightEndpointRequest", body).endpoint
    return endpoint


def _set_options(core: Core, context: flight.ServerCallContext, body: bytes) -> bytes:
    session, result = core.session(context), flight_message("SetSessionOptionsResult")
    known = {**_PLACE, **session.get_options()}
    for key, value in parse_flight("SetSessionOptionsRequest", body).session_options.items():
        name = key.removeprefix("flightllm.")
        try:
            _set_option(session, name, _option_text(value))
        except (InvalidInputError, NotFoundError):
            result.errors[key].value = _INVALID_VALUE if name in known else _INVALID_NAME
    encoded: bytes = result.SerializeToString()
    return encoded


def _set_option(session: Session, name: str, value: str) -> None:
    if name not in _PLACE:
        session.set_option(name, value)
    elif value != _PLACE[name]:
        raise InvalidInputError(
            f"the {name} of a session is always {_PLACE[name]!r}; write other schemas before a table"
        )


def _get_options(core: Core, context: flight.ServerCallContext, _body: bytes) -> bytes:
    result = flight_message("GetSessionOptionsResult")
    for key, value in {**_PLACE, **core.session(context).get_options()}.items():
        result.session_options[key].string_value = value
    encoded: bytes = result.SerializeToString()
    return encoded


def _close_session(core: Core, context: flight.ServerCallContext, _body: bytes) -> bytes:
    core.sessions.close(call_of(context), context.peer())
    result: bytes = flight_message("CloseSessionResult", status=1).SerializeToString()
    return result


def _no_transactions(_core: Core, _context: flight.ServerCallContext, _body: bytes) -> bytes:
    raise UnsupportedError("transactions are not supported; every statement commits by itself (use autocommit)")


def _option_text(value: Any) -> str:
    """Return a session option's value as text; a list joins by commas."""
    kind = value.WhichOneof("option_value")
    if kind is None:
        raise InvalidInputError("the option has no value")
    given = getattr(value, kind)
    if kind == "bool_value":
        return "true" if given else "false"
    return ",".join(given.values) if kind == "string_list_value" else str(given)


def _ipc(schema: pa.Schema) -> bytes:
    encoded: bytes = schema.serialize().to_pybytes()
    return encoded


ACTIONS: Mapping[str, tuple[str, _Handler]] = {
    "CreatePreparedStatement": ("Plan a statement for later execution.", _prepare),
    "ClosePreparedStatement": ("Forget a prepared statement.", _close_prepared),
    "CancelFlightInfo": ("Stop a query.", _cancel_flight_info),
    "CancelQuery": ("Stop a query (older clients).", _cancel_query),
    "CancelQueryById": ("Stop the query with the id in the body.", _cancel_by_id),
    "RenewFlightEndpoint": ("Keep an endpoint.", _renew),
    "SetSessionOptions": ("Change settings of the session.", _set_options),
    "GetSessionOptions": ("List settings of the session.", _get_options),
    "CloseSession": ("End the session.", _close_session),
    "BeginTransaction": ("Not supported.", _no_transactions),
    "EndTransaction": ("Not supported.", _no_transactions),
    # For administrators:
    "Drain": ("Finish what runs and end the server.", _drain),
    "Quarantine": ("List the statements refused since the server died.", _quarantine),
    "LiftQuarantine": ("Let the refused statement named in the body run again.", _lift_quarantine),
}
"""What each action does, and its function."""
