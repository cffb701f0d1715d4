"""Uploads that are nearly right: IPC messages of all types, cut, with wrong lengths, swapped and flipped."""

import random
from decimal import Decimal
from functools import cache

import pyarrow as pa

from flightllm.flight.messages import pack, sql_message
from tests.fuzz.commands import spoilt_bytes
from tests.fuzz.wire import Sent, flight_data, ipc_messages

_N = 20
_ALL = list(range(_N))
_WORDS = [None if n % 5 == 4 else f"text {n}" * (n % 3) for n in _ALL]


@cache
def _streams() -> tuple[tuple[tuple[bytes, bytes], ...], ...]:
    """Return IPC streams as their messages: the first is the schema."""
    lists = [[n] * (n % 4) if n % 7 else None for n in _ALL]
    maps = pa.array([[("k", n)] for n in _ALL], pa.map_(pa.string(), pa.int64()))
    union = pa.UnionArray.from_sparse(pa.array([0] * _N, pa.int8()), [pa.array(_ALL), pa.array(_WORDS)])
    arrays: dict[str, pa.Array] = {
        "int": pa.array(_ALL),
        "text": pa.array(_WORDS),
        "large": pa.array(_WORDS, pa.large_string()),
        "view": pa.array(_WORDS, pa.string_view()),
        "binary view": pa.array([b"x" * n for n in _ALL], pa.binary_view()),
        "list": pa.array(lists),
        "list view": pa.array(lists, pa.list_view(pa.int64())),
        "fixed": pa.array([[n, n] for n in _ALL], pa.list_(pa.int64(), 2)),
        "struct": pa.array([{"a": n, "b": [str(n)]} for n in _ALL]),
        "deep": pa.array([[[[{"a": [n]}]]] for n in _ALL]),
        "map": maps,
        "dictionary": pa.array(_WORDS).dictionary_encode(),
        "dictionaries": pa.array([["a", "b"]] * _N, pa.list_(pa.dictionary(pa.int8(), pa.string()))),
        "run ends": pa.RunEndEncodedArray.from_arrays(pa.array([5, _N], pa.int32()), pa.array(["x", "y"])),
        "decimal": pa.array([Decimal(n) for n in _ALL], pa.decimal128(38, 10)),
        "decimal256": pa.array([Decimal(n) for n in _ALL], pa.decimal256(76, 3)),
        "time": pa.array(_ALL, pa.timestamp("ns", "Europe/Berlin")),
        "date": pa.array(_ALL, pa.date64()),
        "interval": pa.array([pa.MonthDayNano([1, 2, n]) for n in _ALL]),
        "bool": pa.array([n % 2 == 0 for n in _ALL]),
        "null": pa.nulls(_N),
        "half": pa.array(_ALL, pa.float32()).cast(pa.float16()),
        "union": union,
    }
    tables = [pa.table({name: array}) for name, array in arrays.items()]
    tables += [pa.table({"n": pa.array(_ALL), "s": pa.array(_WORDS), "l": pa.array(lists)})] * 3
    tables += [pa.table({"a": pa.array(_ALL), "a ": pa.array(_ALL)}), pa.table({}), pa.table({"": pa.array(_ALL)})]
    found = [tuple(ipc_messages(table)) for table in tables]
    long = pa.table({"n": pa.array([1] * 5_000), "s": pa.array(["same"] * 5_000)})
    return (*found, *(tuple(ipc_messages(long, kind)) for kind in ("lz4", "zstd")))


def upload(chance: random.Random, handle: bytes) -> Sent:
    """Return a DoPut with IPC messages that are mutated; `handle` is that of a prepared statement."""
    messages = list(chance.choice(_streams()))
    match chance.randrange(10):
        case 0:
            messages[0] = chance.choice(_streams())[0]
        case 1:
            messages.insert(chance.randrange(len(messages) + 1), chance.choice(chance.choice(_streams())))
        case 2:
            del messages[chance.randrange(len(messages))]
        case 3:
            chance.shuffle(messages)
        case 4:
            messages = messages * 2
        case 5:
            pass
        case _:
            place = chance.randrange(len(messages))
            header, body = messages[place]
            if chance.random() < 0.6 or not body:
                header = spoilt_bytes(header, chance)
            else:
                body = spoilt_bytes(body, chance)
            messages[place] = header, body
    sent = [flight_data(None, header, body) for header, body in messages]
    command = _command(chance, handle)
    first = messages[0] if messages else (b"", b"")
    sent[:1] = [flight_data(command, *first)]
    if chance.random() < 0.1:
        place = chance.randrange(len(sent))
        sent[place] = spoilt_bytes(sent[place], chance)
    return Sent("DoPut", sent)


def _command(chance: random.Random, handle: bytes) -> bytes:
    kind = chance.randrange(10)
    if kind == 0:
        name = chance.choice(("CommandPreparedStatementQuery", "CommandPreparedStatementUpdate"))
        return pack(sql_message(name, prepared_statement_handle=chance.choice((handle, handle, chance.randbytes(8)))))
    if kind == 1:
        return pack(sql_message("CommandStatementUpdate", query="DELETE FROM made WHERE id = $1"))
    options = {"if_not_exist": chance.choice((1, 1, 1, 2, 0)), "if_exists": chance.choice((3, 3, 3, 1, 2, 0))}
    table = chance.choice(("u1", "u2", "u3", "", "\x00", "../x", "x" * 300, "people;"))
    schema = chance.choice(("", "", "public", "system", "information_schema", "s", "../.."))
    message = sql_message(
        "CommandStatementIngest",
        table=table,
        schema=schema,
        table_definition_options=options,
        temporary=chance.random() < 0.1,
    )
    return pack(message)
