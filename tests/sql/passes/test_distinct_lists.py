"""Aggregates that collect different values give them in order."""

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import rows


def test_order(session: Session) -> None:
    """The values are in order, also with FILTER; a client's own order stays."""
    sql = """SELECT array_agg(DISTINCT name) AS a, string_agg(DISTINCT note, '+') FILTER (WHERE id > 1) AS b,
        array_agg(DISTINCT name ORDER BY name DESC NULLS LAST) AS c FROM people WHERE id < 8"""
    names = ["Ann", "Bob", "Dan", "Eve"]
    wanted = {"a": [*names, None], "b": "hates rain+likes tea+owns a cat", "c": [*names[::-1], None]}
    assert rows(session, sql) == [wanted]


def test_several_orders(session: Session) -> None:
    """Each list has its own order, as in PostgreSQL, with the same values, a FILTER and NULLs."""
    sql = """SELECT string_agg(DISTINCT x, ',' ORDER BY x) AS a, string_agg(DISTINCT x, ';' ORDER BY x DESC) AS b,
        string_agg(x, ',' ORDER BY y) AS c, string_agg(x, ',' ORDER BY y DESC) FILTER (WHERE y < 5) AS d,
        array_agg(DISTINCT x ORDER BY x) AS e, array_agg(DISTINCT x ORDER BY x DESC) AS f,
        array_agg(DISTINCT x ORDER BY x NULLS FIRST) AS g, array_agg(DISTINCT x ORDER BY x DESC NULLS LAST) AS h,
        array_agg(x ORDER BY y) AS i, array_agg(y ORDER BY x DESC, y) AS j, array_agg(DISTINCT y) AS k
        FROM (VALUES ('a', 3), ('c', 1), ('b', 4), ('a', 5), (NULL, 2)) AS v(x, y)"""
    up = ["a", "b", "c"]
    assert rows(session, sql) == [
        {
            "a": "a,b,c",
            "b": "c;b;a",
            "c": "c,a,b,a",
            "d": "b,a,c",
            "e": [*up, None],
            "f": [None, *up[::-1]],
            "g": [None, *up],
            "h": [*up[::-1], None],
            "i": ["c", None, "a", "b", "a"],
            "j": [2, 1, 4, 3, 5],
            "k": [1, 2, 3, 4, 5],
        }
    ]


def test_order_beside_another_aggregate(session: Session) -> None:
    """A list keeps its order beside a first value in another one."""
    sql = """SELECT array_agg(DISTINCT x ORDER BY x) AS a, first_value(x ORDER BY x DESC) AS b
        FROM (VALUES (2), (3), (1)) AS v(x)"""
    assert rows(session, sql) == [{"a": [1, 2, 3], "b": 3}]


def test_several_orders_of_no_rows(session: Session) -> None:
    """Lists of no rows, and of NULLs alone, are NULL."""
    sql = """SELECT string_agg(DISTINCT x, ',' ORDER BY x) AS a, string_agg(DISTINCT x, ',' ORDER BY x DESC) AS b
        FROM (VALUES (CAST(NULL AS TEXT), 1)) AS v(x, y)"""
    assert rows(session, sql) == rows(session, f"{sql} WHERE y > 1") == [{"a": None, "b": None}]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("array_agg(DISTINCT x ORDER BY y), array_agg(DISTINCT x ORDER BY x)", "1:8 has an order by another exp"),
        (
            "array_agg(DISTINCT i ORDER BY i DESC), array_agg(i ORDER BY i)",
            "1:8 collects intervals, lists or structs beside another order: write each",
        ),
    ],
)
def test_orders_without_a_counterpart(session: Session, texts: str, message: str) -> None:
    """An order that no list has is an error with its place."""
    table = "(VALUES ('a', 3, INTERVAL '1 day')) AS v(x, y, i)"
    with pytest.raises(FlightLLMError, match=message):
        rows(session, f"SELECT {texts} FROM {table}")
