"""The types of expressions are those of PostgreSQL, as far as the text and its tables tell them."""

import pyarrow as pa
import pytest

from flightllm.sql.nodes import body
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tree import parse
from flightllm.sql.types import INTERVAL, TIMESTAMP, ZONED, ExpressionTypes

TABLES = {
    ("t",): {"n": pa.int32(), "i": INTERVAL, "at": TIMESTAMP, "day": pa.date32(), "s": pa.string(), "f": pa.float64()},
    ("x", "u"): {"n": pa.int64(), "l": pa.list_(pa.int32())},
}
DECIMAL = pa.decimal128(38, 10)


def types_of(sql: str) -> list[pa.DataType | None]:
    """Return the types of the columns of a query."""
    tree = parse(ParsedText(sql))
    assert tree is not None
    columns = ExpressionTypes(tree.root, lambda parts: TABLES.get(tuple(parts), {})).columns(tree.root)
    assert columns is not None
    return [column.type for column in columns]


@pytest.mark.parametrize(
    ("items", "wanted"),
    [
        ("1, 3000000000, 2.5, 'a', NULL, true", [pa.int32(), pa.int64(), DECIMAL, pa.string(), pa.null(), pa.bool_()]),
        ("date '2024-01-01', timestamp '2024-01-01', interval '1 day'", [pa.date32(), TIMESTAMP, INTERVAL]),
        ("n::numeric(5,2), CAST(n AS timestamptz), '{1}'::int[]", [pa.decimal128(5, 2), ZONED, pa.list_(pa.int32())]),
        ("at - i, day + i, i + day, day - 1, day - day", [TIMESTAMP, TIMESTAMP, TIMESTAMP, pa.date32(), pa.int32()]),
        ("i * 2, 2 * i, i / 2, -i, i - i", [INTERVAL] * 5),
        ("n + 1.5, n * f, n % 2, n < f", [DECIMAL, pa.float64(), pa.int32(), pa.bool_()]),
        ("coalesce(NULL, i), CASE WHEN n > 1 THEN i END, nullif(i, '1 day')", [INTERVAL] * 3),
        ("max(i), sum(i), avg(n), count(*)", [INTERVAL, INTERVAL, DECIMAL, pa.int64()]),
        ("at AT TIME ZONE 'UTC', day AT TIME ZONE 'UTC', now() AT TIME ZONE 'UTC'", [ZONED, TIMESTAMP, TIMESTAMP]),
        ("(SELECT i), (SELECT max(l[1]) FROM x.u), s || n", [INTERVAL, pa.int32(), pa.string()]),
        ("t.i, other(n), missing, (i), ARRAY[n]", [INTERVAL, None, None, INTERVAL, pa.list_(pa.int32())]),
    ],
)
def test_items(items: str, wanted: list[pa.DataType | None]) -> None:
    """Each expression over a table has its type; None where nothing tells it."""
    assert types_of(f"SELECT {items} FROM t") == wanted


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT q.j FROM (SELECT i FROM t) q(j)", [INTERVAL]),
        ("WITH q AS (SELECT day, i FROM t) SELECT * FROM q", [pa.date32(), INTERVAL]),
        ("WITH RECURSIVE q(a) AS (SELECT i FROM t UNION ALL SELECT a FROM q) SELECT a FROM q", [INTERVAL]),
        ("SELECT l.c FROM t, LATERAL (SELECT i AS c) l", [INTERVAL]),
        ("SELECT n FROM t JOIN x.u USING (n)", [pa.int64()]),
        ("SELECT v.a FROM (VALUES (NULL, 1), (date '2024-01-01', 2)) v(a, b)", [pa.date32()]),
        ("SELECT (SELECT a.i FROM x.u) FROM t a", [INTERVAL]),
        ("SELECT day FROM t UNION ALL SELECT at FROM t", [TIMESTAMP]),
        ("SELECT n, m FROM unnest(ARRAY[1]) AS g(m), t", [pa.int32(), pa.int32()]),
        ("SELECT u, ordinality FROM unnest(ARRAY[1.5]) WITH ORDINALITY u", [pa.decimal128(38, 10), pa.int64()]),
        ("SELECT s FROM generate_series(timestamp '2024-01-01', now(), i) s, t", [TIMESTAMP]),
        ("SELECT s FROM t, LATERAL generate_series(day, day, i) s", [ZONED]),
    ],
)
def test_queries(sql: str, wanted: list[pa.DataType | None]) -> None:
    """Types pass through the tables of FROM, WITH and the queries around a subquery."""
    assert types_of(sql) == wanted


def test_changes() -> None:
    """The tables of a statement that changes rows are known in its conditions."""
    tree = parse(ParsedText("DELETE FROM t USING x.u AS v WHERE i < v.n"))
    assert tree is not None
    types = ExpressionTypes(tree.root, lambda parts: TABLES.get(tuple(parts), {}))
    condition = body(body(tree.root)["selection"])
    assert [types.of(condition["left"]), types.of(condition["right"])] == [INTERVAL, pa.int64()]


def test_a_long_chain() -> None:
    """A chain of operators is no recursion."""
    assert types_of(f"SELECT {' + '.join(['n'] * 400)} FROM t") == [pa.int32()]


def test_with_queries_that_read_each_other() -> None:
    """Each WITH query is read once, however often others name it."""
    queries = ", ".join(f"q{n} AS (SELECT a.i FROM q{n - 1} a, q{n - 1} b)" for n in range(1, 31))
    assert types_of(f"WITH q0 AS (SELECT i FROM t), {queries} SELECT i FROM q30") == [INTERVAL]
