"""Clauses and values of Spark have the rows that Spark 4.3 returns, or an error says what to write."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask, small_database

_STARS = "VALUES (1), (4), (5) AS t(stars)"
_NAMES = "VALUES ('a', 1), ('b', 2), ('a', 3) AS t(name, x)"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Open a database."""
    return small_database(tmp_path_factory.mktemp("spark")).session()


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (f"SELECT any(stars > 3) FROM {_STARS}", [[True]]),
        (f"SELECT any(stars > 3) FILTER (WHERE stars < 4), some(stars > 3) FROM {_STARS}", [[False, True]]),
        (f"SELECT stars, any(stars > 3) OVER () FROM {_STARS} ORDER BY stars", [[1, True], [4, True], [5, True]]),
        ("SELECT 'abc' LIKE ANY ('a%', 'x')", [[True]]),
        (
            f"SELECT name, count(*) FROM {_NAMES} GROUP BY name GROUPING SETS ((name), ()) ORDER BY name NULLS LAST",
            [["a", 2], ["b", 1], [None, 3]],
        ),
        (
            f"SELECT x, count(*) FROM {_NAMES} GROUP BY name, x GROUPING SETS ((x), ()) ORDER BY x NULLS LAST",
            [[1, 1], [2, 1], [3, 1], [None, 3]],
        ),
        (
            "SELECT /*+ MERGE(a) */ /*+ BROADCAST(b) */ a.x FROM VALUES (1) a(x) JOIN VALUES (1) b(x) ON a.x = b.x",
            [[1]],
        ),
        ("SELECT x FROM (SELECT /*+ REPARTITION(3), COALESCE(1) */ x FROM VALUES (1) AS t(x))", [[1]]),
        (
            "SELECT x'1F', x'F', hex(x'1F'), base64(x'616263'), CAST(x'616263' AS STRING)",
            [[b"\x1f", b"\x0f", "1F", "YWJj", "abc"]],
        ),
        ("SELECT parse_url('http://u@[::1]:80/p', 'HOST'), parse_url('http://a.b:80/p', 'HOST')", [["[::1]", "a.b"]]),
        (
            "SELECT array_append(CAST(NULL AS ARRAY<INT>), 2), array_prepend(CAST(NULL AS ARRAY<INT>), 2)",
            [[None, None]],
        ),
        (
            "SELECT reverse(l), reverse(sort_array(l)), reverse(slice(l, 1, 2)) FROM (SELECT array(1, 2, NULL) AS l)",
            [[[None, 2, 1], [2, 1, None], [2, 1]]],
        ),
        (
            "SELECT reverse(flatten(array(l, l))), reverse(t) FROM (SELECT array(1, 2) AS l, 'abc' AS t)",
            [[[2, 1, 2, 1], "cba"]],
        ),
        ("SELECT reverse(transform(array(1, 2), x -> x + 1)), reverse(map_keys(map(1, 2, 3, 4)))", [[[3, 2], [3, 1]]]),
        ("SELECT transform_values(map(1, 5), (k, v) -> v + 1)[1], map_concat(map(1, 2), map(3, 4))[3]", [[6, 4]]),
        (
            "SELECT CAST('2.9' AS DECIMAL), '2.9'::DECIMAL, CAST(2.5 AS DECIMAL), CAST(2.9D AS DECIMAL)",
            [[Decimal(3), Decimal(3), Decimal(3), Decimal(3)]],
        ),
        (
            "SELECT CAST(1.005 AS DECIMAL(3, 2)), CAST(-1.005 AS DECIMAL(3, 2)), CAST('1.005' AS DECIMAL(3, 2))",
            [[Decimal("1.01"), Decimal("-1.01"), Decimal("1.01")]],
        ),
        (
            "SELECT CAST(CAST(0.1 AS FLOAT) AS STRING), CAST(1e10 AS STRING), CAST(-1e7 AS STRING), CAST(12 AS STRING)",
            [["0.1", "1.0E10", "-1.0E7", "12"]],
        ),
        ("SELECT array_append(array(1), 2), array_prepend(array(1), 2)", [[[1, 2], [2, 1]]]),
        ("SELECT try_add(1, 2), try_add(2147483647, 1), try_subtract(-2147483648, 1)", [[3, None, None]]),
        ("SELECT try_multiply(2147483647, 2), try_multiply(CAST(2147483647 AS BIGINT), 2)", [[None, 4294967294]]),
        ("SELECT try_add(9223372036854775807L, 1L), try_add(DATE '2024-01-01', 1) > DATE '2024-01-01'", [[None, True]]),
        ("SELECT try_add(a, b) FROM VALUES (1, 2), (2147483647, 1), (NULL, 3) AS t(a, b)", [[3], [None], [None]]),
        ("SELECT try_mod(7, 0), try_mod(7, 4), try_subtract(1.5D, 2)", [[None, 3, -0.5]]),
        ("SELECT try_sum(x), try_sum(y) FROM VALUES (9223372036854775807L, 1.5D), (1L, 2D) AS t(x, y)", [[None, 3.5]]),
        (
            (
                "SELECT try_sum(x) FILTER (WHERE x > 1), try_sum(DISTINCT x), try_sum(DISTINCT y), try_sum(y) FILTER"
                " (WHERE x > 1) FROM VALUES (1L, 1.5D), (1L, 1.5D), (2L, 2D) AS t(x, y)"
            ),
            [[2, 3, 3.5, 2.0]],
        ),
        (
            (
                "SELECT x, try_sum(x) OVER (ORDER BY x), try_sum(y) OVER (ORDER BY x) FROM VALUES (1L, 1.5D), (2L, 2D)"
                " AS t(x, y) ORDER BY x"
            ),
            [[1, 1, 1.5], [2, 3, 3.5]],
        ),
        (
            (
                "SELECT transform_values(map('x', map('a', 1, 'b', 2)), (k, v) -> map_filter(v, (a, b) -> a = k)),"
                " transform_values(map('a', map('a', 1, 'b', 2)), (k, v) -> map_filter(v, (a, b) -> a = k)),"
                " transform_values(map('a', array(1)), (k, v) -> transform(v, x -> concat(k, x)))"
            ),
            [[[("x", [])], [("a", [("a", 1)])], [("a", ["a1"])]]],
        ),
        (
            (
                "SELECT map_filter(map('a', 1, 'b', 2), (k, v) -> v > 1),"
                " transform_values(map('a', 1), (k, v) -> v + 1),"
                " transform_keys(map('a', 1), (k, v) -> upper(k)), map_concat(map('a', 1), map('b', 2))"
            ),
            [[[("b", 2)], [("a", 2)], [("A", 1)], [("a", 1), ("b", 2)]]],
        ),
        (
            "SELECT transform_values(m, (k, v) -> v * n) FROM VALUES (map('a', 2), 5), (NULL, 1) AS t(m, n)",
            [[[("a", 10)]], [None]],
        ),
        (
            "SELECT str_to_map('a:1:2,b'), str_to_map('a=1', ';', '='), str_to_map(CAST(NULL AS STRING))",
            [[[("a", "1:2"), ("b", None)], [("a", "1")], None]],
        ),
        (
            "SELECT from_json(j, 'a INT') FROM VALUES ('bad'), ('{\"a\": 1}'), (NULL), (''), ('[1]') AS t(j)",
            [[{"a": None}], [{"a": 1}], [None], [None], [{"a": None}]],
        ),
        (
            (
                "SELECT from_json(j, 'i ARRAY<STRUCT<sku: STRING, n: ARRAY<STRUCT<c: INT>>>>').i[0].n[0].c FROM VALUES"
                """ ('{"i": [{"sku": "x", "n": [{"c": 4}]}]}'), (NULL) AS t(j)"""
            ),
            [[4], [None]],
        ),
        (
            """SELECT from_json('[{"a": 1}, {}]', 'ARRAY<STRUCT<a: INT>>'), from_json('{"b": 2}', 'MAP<STRING,INT>')""",
            [[[{"a": 1}, {"a": None}], [("b", 2)]]],
        ),
        (
            (
                "SELECT sequence(d, DATE '2024-04-30', INTERVAL 1 MONTH),"
                " sequence(DATE '2024-03-31', d, INTERVAL -1 MONTH) FROM VALUES (DATE '2024-01-31') AS t(d)"
            ),
            [
                [
                    [date(2024, 1, 31), date(2024, 2, 29), date(2024, 3, 31), date(2024, 4, 30)],
                    [date(2024, 3, 31), date(2024, 2, 29), date(2024, 1, 31)],
                ]
            ],
        ),
        (
            "SELECT sequence(DATE '2024-02-29', DATE '2026-02-28', INTERVAL 1 YEAR), sequence(1, 7, 3)",
            [[[date(2024, 2, 29), date(2025, 2, 28), date(2026, 2, 28)], [1, 4, 7]]],
        ),
        ("SELECT hex(encode('aé', 'UTF-8')), decode(encode('abc', 'utf-8'), 'utf-8')", [["61C3A9", "abc"]]),
    ],
)
def test_rows(session: Session, sql: str, rows: list[list[Any]]) -> None:
    """A query has Spark's rows."""
    assert [
        list(row) for row in zip(*ask(session, sql, dialect="spark").table.to_pydict().values(), strict=True)
    ] == rows


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("encode('a', 'UTF-16')", "write encode"),
        ("hll_sketch_estimate(hll_sketch_agg(stars))", "write approx_count_distinct"),
        ("xpath_string(x, 'a/c')", "write regexp_extract"),
        ("variant_set(parse_json('{}'), '$.a', 1)", "write variant_get"),
        ("window(now(), '5 minutes').start", "write date_trunc"),
        ("try_make_timestamp_ntz(2024, 1, 2, 3, 4, 5)", "write make_timestamp"),
        ("decode(x'FF', 'UTF-8')", "UTF-8"),
        ("left(encode('Spark', 'utf-8'), 3)", "write left over decode"),
        ("overlay(encode('Spark', 'utf-8') PLACING encode('_', 'utf-8') FROM 2)", "write overlay over decode"),
        ("try_add('a', 1)", "write try_cast"),
        ("try_add(DATE '2024-01-01', INTERVAL 1 YEAR)", "write a . b"),
        ("try_add(CAST(1 AS TINYINT), CAST(127 AS TINYINT))", "write try_cast"),
    ],
)
def test_refused(session: Session, value: str, said: str) -> None:
    """A value without a counterpart is an error that helps."""
    with pytest.raises(FlightLLMError, match=said):
        ask(session, f"SELECT {value} AS x FROM {_STARS}", dialect="databricks")
