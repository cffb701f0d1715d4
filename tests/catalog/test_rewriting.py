"""UPDATE and DELETE against SQLite, and what DataFusion's own planning of them would lose."""

import random
import sqlite3
from typing import Any

import pytest

from flightllm.catalog import Catalog
from tests.catalogs import ingest, read, run

COLUMNS = "i BIGINT, j BIGINT, s VARCHAR"
ROWS = "(1, 2, 'a'), (2, 1, 'Ab'), (3, NULL, 'b'), (NULL, 4, NULL), (5, 5, ''), (0, -3, 'c'), (1, 2, 'a'), (-7, 9, 'B')"


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE t SET j = i, i = i + 1",
        "UPDATE t SET s = upper(s) || upper(s)",
        "UPDATE t SET j = CASE WHEN i * 2 > 4 THEN i * 2 ELSE 0 END WHERE i * 2 < 9",
        "DELETE FROM t WHERE (i - j) < i AND (i - j) > -2",
        "UPDATE t SET i = coalesce(i + j, j) WHERE (i + j) IS NULL OR (i + j) > 3",
    ],
)
def test_what_is_written_twice(catalog: Catalog, sql: str) -> None:
    """An expression that stands in a statement more than once is no other table's column."""
    assert _ours(catalog, sql) == _sqlite(sql)


@pytest.mark.parametrize(
    ("sql", "left"),
    [
        ("DELETE FROM t WHERE s['x'] = 3", [{"x": 4, "y": "b"}, {"x": None, "y": "c"}]),
        ("DELETE FROM t WHERE s['x'] IS NULL OR s['y'] = 'a'", [{"x": 4, "y": "b"}]),
        ("UPDATE t SET s = NULL WHERE s['x'] > 3 AND s['y'] = 'b'", [{"x": 3, "y": "a"}, None, {"x": None, "y": "c"}]),
    ],
)
def test_fields_in_conditions(catalog: Catalog, sql: str, left: list[object]) -> None:
    """A condition may be about fields of structs, one or several."""
    ingest(catalog, "t", {"s": [{"x": 3, "y": "a"}, {"x": 4, "y": "b"}, {"x": None, "y": "c"}]})
    assert run(catalog, sql) == (1 if sql.startswith("UPDATE") else 3 - len(left))
    assert [row["s"] for row in read(catalog, "SELECT s FROM t")] == left


@pytest.mark.parametrize("seed", range(4))
def test_any_statement(catalog: Catalog, seed: int) -> None:
    """Statements made at random change the rows that SQLite changes, to the same values, and count them alike."""
    draw = _Draw(seed)
    for _ in range(15):
        sql = draw.statement()
        assert _ours(catalog, sql) == _sqlite(sql), sql


def _ours(catalog: Catalog, sql: str) -> tuple[int, list[tuple[Any, ...]]]:
    """Return how many rows a statement changes, and the rows after it."""
    run(catalog, f"CREATE OR REPLACE TABLE t ({COLUMNS})", f"INSERT INTO t VALUES {ROWS}")
    changed = run(catalog, sql)
    return changed, [tuple(row.values()) for row in read(catalog, "SELECT * FROM t")]


def _sqlite(sql: str) -> tuple[int, list[tuple[Any, ...]]]:
    connection = sqlite3.connect(":memory:")
    connection.execute(f"CREATE TABLE t ({COLUMNS})")
    connection.execute(f"INSERT INTO t VALUES {ROWS}")
    changed = connection.execute(sql).rowcount
    return changed, connection.execute("SELECT * FROM t").fetchall()


class _Draw:
    """Writes statements that mean the same to DataFusion and SQLite: no division, no text compared with a number."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - no secret

    def statement(self) -> str:
        where = f" WHERE {self._condition(3)}" if self._random.random() < 0.8 else ""
        if self._random.random() < 0.4:
            return f"DELETE FROM t{where}"
        values = {"i": self._number(2), "j": self._number(2), "s": self._text(2)}
        changed = self._random.sample(list(values), self._random.randint(1, 3))
        return f"UPDATE t SET {', '.join(f'{name} = {values[name]}' for name in changed)}{where}"

    def _number(self, depth: int) -> str:
        if depth == 0:
            return self._random.choice(["i", "j", "1", "2", "NULL"])
        a, b = self._number(depth - 1), self._number(depth - 1)
        either = f"CASE WHEN {self._condition(depth - 1)} THEN {a} ELSE {b} END"
        return self._random.choice([a, f"({a} + {b})", f"({a} - {b})", f"({a} * 2)", f"coalesce({a}, {b})", either])

    def _text(self, depth: int) -> str:
        if depth == 0:
            return self._random.choice(["s", "'a'", "upper(s)"])
        a, b = self._text(depth - 1), self._text(depth - 1)
        return self._random.choice([a, f"({a} || {b})", f"coalesce({a}, {b})", f"lower({a})"])

    def _condition(self, depth: int) -> str:
        if depth <= 1:
            a, b, text = self._number(depth), self._number(0), self._text(1)
            sign = self._random.choice(["<", "=", "<>", ">="])
            simple = [f"{a} {sign} {b}", f"({a}) IS NULL", f"{text} = {self._text(0)}", f"{a} IN (1, {b})"]
            return self._random.choice(simple)
        a, b = self._condition(depth - 1), self._condition(depth - 1)
        return self._random.choice([a, f"({a} AND {b})", f"({a} OR {b})", f"NOT ({a})"])
