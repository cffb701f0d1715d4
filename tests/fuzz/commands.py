"""Flight SQL messages that are nearly right, on all methods, with their headers."""

# ruff: noqa: E501 - lists of what is sent

import random
from collections.abc import Callable
from functools import cache
from typing import Any

from datafusion import SessionContext
from datafusion.substrait import Producer

from flightllm.flight.actions import ACTIONS
from flightllm.flight.messages import flight_message, pack, sql_message
from tests.fuzz.texts import sql
from tests.fuzz.wire import Sent, action, descriptor, field, put_data, ticket, varint

_METHODS = ("GetFlightInfo", "GetSchema", "DoGet", "DoAction", "DoPut", "ListFlights", "ListActions", "PollFlightInfo")
_NAMES = (
    "CommandGetSqlInfo", "CommandGetXdbcTypeInfo", "CommandGetCatalogs", "CommandGetDbSchemas", "CommandGetTables",
    "CommandGetTableTypes", "CommandGetPrimaryKeys", "CommandGetExportedKeys", "CommandGetImportedKeys",
    "CommandGetCrossReference", "CommandStatementQuery", "CommandPreparedStatementQuery", "CommandStatementUpdate",
    "CommandPreparedStatementUpdate", "SubstraitPlan", "CommandStatementSubstraitPlan", "CommandStatementIngest",
    "TicketStatementQuery", "DoPutUpdateResult", "ActionCreatePreparedStatementRequest",
    "ActionCreatePreparedSubstraitPlanRequest", "ActionClosePreparedStatementRequest", "ActionCancelQueryRequest",
)  # fmt: skip
_ACTIONS = tuple(name for name in ACTIONS if name != "Drain")  # an admin's ends the server, as it is to
_PLANS = (
    "SELECT id, name FROM people WHERE id > 1", "SELECT name, count(*) FROM people GROUP BY name ORDER BY 2 LIMIT 3",
    "SELECT p.id, l.thing FROM people p LEFT JOIN likes l ON p.id = l.person_id", "SELECT 1 UNION ALL SELECT 2",
    "SELECT id, row_number() OVER (ORDER BY id) FROM people WHERE id IN (SELECT person_id FROM likes)",
)  # fmt: skip


def command(chance: random.Random) -> Sent:
    """Return a call with a message that is mutated."""
    message = pack(_message(chance))
    return _call(chance, _spoilt(message, chance))


def plan(chance: random.Random) -> Sent:
    """Return a call with a Substrait plan that is mutated."""
    body = _spoilt(chance.choice(_plans()), chance)
    version = chance.choice(("", "0.1.0", "x" * 100))
    message = sql_message("CommandStatementSubstraitPlan", plan={"plan": body, "version": version})
    if chance.random() < 0.3:
        request = sql_message("ActionCreatePreparedSubstraitPlanRequest", plan={"plan": body, "version": version})
        return Sent("DoAction", [action("CreatePreparedSubstraitPlan", pack(request))])
    return Sent(chance.choice(("GetFlightInfo", "GetSchema")), [descriptor(pack(message))])


def statement(chance: random.Random) -> Sent:
    """Return a call with an SQL text that is mutated."""
    text = sql(chance)
    method = chance.choices(("info", "schema", "prepare", "update"), (6, 1, 2, 1))[0]
    if method == "prepare":
        request = sql_message("ActionCreatePreparedStatementRequest", query=text)
        return Sent("DoAction", [action("CreatePreparedStatement", pack(request))])
    if method == "update":
        update = pack(sql_message("CommandStatementUpdate", query=text))
        return Sent("DoPut", [put_data(update)])
    query = pack(sql_message("CommandStatementQuery", query=text))
    return Sent("GetSchema" if method == "schema" else "GetFlightInfo", [descriptor(query)])


def headers(chance: random.Random) -> Sent:
    """Return a right call with headers that are wrong."""
    query = descriptor(pack(sql_message("CommandStatementQuery", query="SELECT 1")))
    names = (
        "authorization", "cookie", "traceparent", "x-flightllm-timeout", "x-flightllm-optimizer", "x-flightllm-endpoints",
        "x-flightllm-max_calls", "x-flightllm-", "x-flightllm-nothing", "grpc-encoding-x", "x-flightllm-bin", "tracestate",
    )  # fmt: skip
    values = (
        "", "Basic", "Basic !!!", "Basic YTpi", "Basic Og==", "Basic " + "QQ" * 500, "Bearer", "Bearer x", "Bearer " + "x" * 2_000, "Bearer a.b.c",
        "Bearer eyJhbGciOiJub25lIn0.e30.", "Digest x", "flightllm_session=x", "flightllm_session=", "a=b; c", '=;=;"', 'flightllm_session="\\777"',
        "00-" + "0" * 32 + "-" + "0" * 16 + "-00", "00-x-y-01", "99-" + "f" * 32 + "-" + "f" * 16 + "-ff", "-1", "nan", "inf", "1e999", "0", "on",
        "18446744073709551616", "none", "' OR 1=1", "{}", "%00", "%s%n",
    )  # fmt: skip
    given: list[tuple[str, str | bytes]] = []
    for _ in range(chance.randrange(1, 5)):
        name, value = chance.choice(names), chance.choice(values)
        given.append((name, value.encode() if name.endswith("-bin") else value))
    return Sent(chance.choice(("GetFlightInfo", "GetSchema")), [query], given)


def spoilt_bytes(data: bytes, chance: random.Random) -> bytes:
    """Return bytes with a few of them changed, taken out, repeated or made up."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        place = chance.randrange(len(changed) + 1)
        match chance.randrange(7):
            case 0 if place < len(changed):
                changed[place] ^= 1 << chance.randrange(8)
            case 1 if place < len(changed):
                changed[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                del changed[place : place + chance.randrange(1, 9)]
            case 3:
                changed[place:place] = chance.randbytes(chance.randrange(1, 9))
            case 4:
                del changed[place:]
            case 5:
                changed[place:place] = varint(chance.choice((1 << 31, 1 << 32, (1 << 63) - 1, (1 << 64) - 1)))
            case _:
                changed[place:place] = changed[place : place + chance.randrange(1, 40)]
    return bytes(changed)


def _message(chance: random.Random) -> Any:
    """Return a message with values of the right types in some of its fields."""
    name = chance.choice(_NAMES)
    message = sql_message(name)
    for one in message.DESCRIPTOR.fields:
        if chance.random() < 0.3:
            continue
        value = _value(one, chance)
        if value is not None:
            try:
                if isinstance(value, list):
                    getattr(message, one.name).extend(value)
                else:
                    setattr(message, one.name, value)
            except (TypeError, ValueError):  # another kind of field: it stays empty
                continue
    return message


def _value(one: Any, chance: random.Random) -> object:
    if one.message_type is not None:
        return None
    text = chance.choice((sql(chance), "people", "public", "%", "\\", "_" * 50, "\x00", "x" * 10_000, "flightllm", ""))
    blob = chance.choice((b"", chance.randbytes(16), b".1", b"done", text.encode(), b"\xff" * 40))
    makers: dict[str, Callable[[], object]] = {
        "str": lambda: text,
        "bytes": lambda: blob,
        "int": lambda: chance.choice((0, 1, 2, 8, 500, -1, 1 << 30)),
        "bool": lambda: chance.random() < 0.5,
    }
    kinds = {9: "str", 12: "bytes", 8: "bool"}
    value = makers[kinds.get(one.type, "int")]()
    return [value] if getattr(one, "is_repeated", False) is True else value


def _spoilt(data: bytes, chance: random.Random) -> bytes:
    """Return a message as it is, changed, wrapped once more, or as something else."""
    match chance.randrange(8):
        case 0:
            return data
        case 1:
            return chance.randbytes(chance.randrange(64))
        case 2:
            return data.replace(
                b"arrow.flight.protocol.sql",
                chance.choice((b"x", b"google.protobuf", b"arrow.flight.protocol.sql.sql")),
            )
        case 3:
            url = chance.choice((b"type.googleapis.com/arrow.flight.protocol.sql.", b"type.googleapis.com/", b"/", b""))
            return field(1, url + chance.choice(_NAMES).encode()) + field(2, data)
        case _:
            return spoilt_bytes(data, chance)


def _call(chance: random.Random, data: bytes) -> Sent:
    method = chance.choices(_METHODS, (4, 2, 4, 6, 2, 1, 1, 1))[0]
    match method:
        case "DoGet":
            return Sent(method, [ticket(data)])
        case "DoAction":
            kind = chance.choice(_ACTIONS) if chance.random() < 0.95 else chance.choice(("", "drain", "x" * 1_000, "é"))
            body = data if chance.random() < 0.6 else _spoilt(_raw(chance), chance)
            return Sent(method, [action(kind, body)])
        case "DoPut":
            return Sent(method, [put_data(data)])
        case "ListActions":
            return Sent(method, [data])
        case _:
            return Sent(method, [descriptor(data) if chance.random() < 0.8 else data])


def _raw(chance: random.Random) -> bytes:
    """Return the body of an action that is not wrapped."""
    name = chance.choice(
        ("CancelFlightInfoRequest", "RenewFlightEndpointRequest", "SetSessionOptionsRequest", "CloseSessionRequest")
    )
    if name == "SetSessionOptionsRequest":
        message = flight_message(name)
        option = message.session_options[
            chance.choice(("timeout", "optimizer", "catalog", "schema", "x", "flightllm.dedup"))
        ]
        option.string_value = chance.choice(("on", "off", "public", "", "1", "-1", "\x00"))
        return bytes(message.SerializeToString())
    inner = field(1, ticket(pack(sql_message("TicketStatementQuery", statement_handle=chance.randbytes(8)))))
    return field(1, field(3, inner) + descriptor(b"x")) if name == "CancelFlightInfoRequest" else field(1, inner)


@cache
def _plans() -> tuple[bytes, ...]:
    context = SessionContext()
    context.sql("CREATE TABLE people AS SELECT 1 AS id, 'x' AS name, 'y' AS note, 1.5 AS score")
    context.sql("CREATE TABLE likes AS SELECT 1 AS person_id, 'x' AS thing, 2 AS weight")
    plans = [context.sql(text).optimized_logical_plan() for text in _PLANS]
    return tuple(bytes(Producer.to_substrait_plan(one, context).encode()) for one in plans)
