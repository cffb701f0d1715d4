"""Kinds of attacks by one user on many connections: long texts, slow readers, slow uploads, and grouping sets."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias
from uuid import uuid4

import pyarrow as pa

_LONGEST = 990_000
"""Bytes of the longest texts, a little less than the default of `sql_bytes`."""
_LATER_SECONDS = 5.0
"""How long a slow client waits between two batches."""
_COLUMNS = 62

_Attack: TypeAlias = Callable[[Any, str, threading.Event], None]
"""The work of one connection: it gets a cursor, the SQL text, and the event that ends it."""


def _ask(cursor: Any, sql: str, _: threading.Event) -> None:
    cursor.execute(sql)
    cursor.fetch_arrow_table()  # making Python objects of the rows would slow down the victim's client, not the server


def _read_slowly(cursor: Any, sql: str, stopped: threading.Event) -> None:
    cursor.execute(sql)
    with cursor.fetch_record_batch() as reader:
        while not stopped.wait(_LATER_SECONDS):
            reader.read_next_batch()


def _send_slowly(cursor: Any, _: str, stopped: threading.Event) -> None:
    """Upload one row at a time; the server drops what it got when the upload is cut off."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [1]})
        while not stopped.wait(_LATER_SECONDS):
            yield pa.record_batch({"n": [1]})

    name = f"sent_{uuid4().hex}"
    cursor.adbc_ingest(name, pa.RecordBatchReader.from_batches(pa.schema({"n": pa.int64()}), batches()))
    cursor.execute(f"DROP TABLE {name}")


def _stay(cursor: Any, sql: str, stopped: threading.Event) -> None:
    """Ask once, then stay connected; a connection costs memory while it stays."""
    _ask(cursor, sql, stopped)
    stopped.wait(_LATER_SECONDS)


@dataclass(frozen=True, slots=True)
class Crowd:
    """A kind, how many connections it needs at least, and what each of them does again and again."""

    name: str
    sql: Callable[[], str]
    attack: _Attack = _ask
    connections: int = 1
    setup: tuple[str, ...] = ()


def _repeated(start: str, part: Callable[[int], str], end: str, size: int = _LONGEST) -> Callable[[], str]:
    """Return a function that writes a text of at most `size` bytes with as many parts as fit."""

    def text() -> str:
        parts, left, number = [start], size - len(start) - len(end), 0
        while (left := left - len(more := part(number))) >= 0:
            parts.append(more)
            number += 1
        return "".join([*parts, end])

    return text


def _wide(sets: str) -> Callable[[], str]:
    columns = ", ".join(f"n % {3 + number} AS c{number}" for number in range(_COLUMNS))
    return lambda: f"SELECT count(*) FROM (SELECT count(*) FROM (SELECT {columns} FROM wide) GROUP BY {sets})"


_PAIRS = ", ".join(f"(c{a}, c{b})" for a, b in list(combinations(range(_COLUMNS), 2))[:1_500])
_VECTOR = ", ".join(f"{number / 1_536:.4f}" for number in range(1_536))
_CROSS = "SELECT a.n, b.s, a.s AS t FROM wide a CROSS JOIN small b"

CROWDS = (
    Crowd("IN of integers, 1 MB", _repeated("SELECT 1 WHERE 0 IN (1", ",{}".format, ")")),
    Crowd("IN of integers, 116 KB", _repeated("SELECT 1 WHERE 0 IN (1", ",{}".format, ")", 116_000), connections=30),
    Crowd("IN of texts, 1 MB", _repeated("SELECT count(*) FROM small WHERE s IN ('x'", ",'name {}'".format, ")")),
    Crowd("VALUES, 1 MB", _repeated("SELECT count(*) FROM (VALUES (0, 'x')", ", ({}, 'y')".format, ") AS v")),
    Crowd("list of integers, 1 MB", _repeated("SELECT cardinality([0", ", {}".format, "])")),
    Crowd("list of numbers, 60 KB", _repeated("SELECT cardinality([0", ", {}.5".format, "])", 60_000), connections=12),
    Crowd(
        "lists of vectors, 1 MB", _repeated("SELECT 1 FROM (VALUES (1, [0.5])", lambda _: f", (1, [{_VECTOR}])", ") v")
    ),
    Crowd("map of texts, 1 MB", _repeated("SELECT MAP {'x': 0", ", 'k{0}': {0}".format, "}")),
    Crowd("subscripts, 1 MB", _repeated("SELECT 1", lambda _: "[]", "")),
    Crowd("names with dots, 1 MB", _repeated("SELECT a", lambda _: ".a", "")),
    Crowd("brackets, 1 MB", _repeated("SELECT ", lambda _: "(", "1")),
    Crowd("comments, 1 MB", _repeated("SELECT 1 ", lambda _: "/* x */ ", "")),
    Crowd("one text, 1 MB", _repeated("SELECT length('", lambda _: "abcdefgh", "')")),
    Crowd("items, 1 MB", _repeated("SELECT 0", ", n AS a{}".format, " FROM small")),
    Crowd("additions, 1 MB", _repeated("SELECT 0", " + {}".format, "")),
    Crowd("additions, 4 KB", _repeated("SELECT 0", " + {}".format, "", 4_900), connections=30),
    Crowd("items, 19 KB", _repeated("SELECT 0", ", n AS a{}".format, " FROM small", 19_000), connections=30),
    Crowd("conditions, 1 MB", _repeated("SELECT 1 FROM small WHERE n = 0", " OR n = {}".format, "")),
    Crowd("calls, 1 MB", _repeated("SELECT concat('x'", ", upper('a{}')".format, ")")),
    Crowd("CASE, 1 MB", _repeated("SELECT CASE n", " WHEN {0} THEN {0}".format, " END FROM small")),
    Crowd("UNION, 1 MB", _repeated("SELECT 0", " UNION ALL SELECT {}".format, "")),
    Crowd("WITH, 1 MB", _repeated("WITH q AS (SELECT 1)", ", q{} AS (SELECT 1)".format, " SELECT 1")),
    Crowd("nonsense, 1 MB", _repeated("SELECT ", "'{} ".format, "")),
    Crowd("GROUPING SETS", _wide(f"GROUPING SETS ({_PAIRS})")),
    Crowd("CUBE", _wide(f"CUBE ({', '.join(f'c{number}' for number in range(12))})")),
    Crowd("ROLLUP", _wide(f"ROLLUP ({', '.join(f'c{number}' for number in range(_COLUMNS))})")),
    Crowd("heavy sorts", lambda: f"SELECT count(*) FROM (SELECT *, row_number() OVER (ORDER BY t, s) FROM ({_CROSS}))"),
    Crowd("slow readers", lambda: _CROSS, _read_slowly, 64),
    Crowd("slow uploads", lambda: "", _send_slowly, 70),
    Crowd("connections that stay", lambda: "SELECT 1", _stay, 200),
)
"""Each runs with the connections that it needs at least, and with more where more are asked for."""
