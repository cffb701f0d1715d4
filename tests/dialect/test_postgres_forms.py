"""Clauses and operators of PostgreSQL have PostgreSQL's rows, or an error that says what to write."""

from collections.abc import Iterator
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask, small_database


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open a database with rows that are ties, texts, JSON and a table to change."""
    folder: Path = tmp_path_factory.mktemp("forms")
    database = small_database(folder)
    session = database.session()
    session.update("CREATE TABLE q (id INT, kind TEXT, v INT, j TEXT)")
    session.update(
        "INSERT INTO q VALUES (1, 'k', 10, '{\"a\": [1, 2], \"s\": \"x\"}'), (2, 'm', 20, '{\"a\": [3]}'),"
        " (3, 'k', 20, NULL), (4, NULL, NULL, NULL)"
    )
    session.update("CREATE TABLE p (id INT PRIMARY KEY, price NUMERIC(8, 2) DEFAULT 1.5)")
    session.update("INSERT INTO p VALUES (1, 9)")
    yield session
    database.close()


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT id FROM q ORDER BY kind FETCH FIRST 1 ROW WITH TIES", [(1,), (3,)]),
        ("SELECT kind FROM q ORDER BY kind OFFSET 1 FETCH FIRST 1 ROWS WITH TIES", [("k",)]),
        ("SELECT kind, count(*) AS n FROM q GROUP BY kind ORDER BY n DESC FETCH FIRST ROW WITH TIES", [("k", 2)]),
        ("SELECT v AS x FROM q ORDER BY x DESC NULLS LAST FETCH FIRST 1 ROW WITH TIES", [(20,), (20,)]),
        ("SELECT id, -id AS KIND FROM q ORDER BY kind FETCH FIRST 1 ROW WITH TIES", [(4, -4)]),
        ("SELECT id, kind FROM q ORDER BY 1 DESC FETCH FIRST 1 ROW WITH TIES", [(4, None)]),
        ("SELECT 'abc' LIKE ALL ('{a%,NULL}'), 'x' LIKE ANY ('{a%,NULL}')", [(None, None)]),
        ("SELECT @ 5, @ -5.5, @ v FROM q WHERE id = 1", [(5, Decimal("5.5"), 10)]),
        ("SELECT 'now'::timestamp = now()::timestamp, 'now'::date = current_date", [(True, True)]),
        ("SELECT 'abc' NOT LIKE ALL ('{x%,NULL}'), 'abc' LIKE ANY ('{a%,NULL}')", [(None, True)]),
        ("SELECT id, json_array_length(j->'a') FROM q WHERE j IS NOT NULL ORDER BY id", [(1, 2), (2, 1)]),
        ("SELECT coalesce(j->>'s', 'none') FROM q WHERE j IS NOT NULL ORDER BY id", [("x",), ("none",)]),
        ("SELECT id FROM q WHERE kind LIKE ANY ('{k%,z}'::text[]) ORDER BY id", [(1,), (3,)]),
        ("SELECT id FROM q WHERE kind NOT LIKE ALL ('{k,z}') ORDER BY id", [(2,)]),
        ("SELECT @ (-5) AS a, |/ 25.0 AS b, ||/ 27.0 AS c", [(5, 5.0, 3.0)]),
        ("SELECT substring('foobar' FROM 'o(.)b'), substring('foobar' FROM 'o.b')", [("o", "oob")]),
        ("SELECT (DATE '2024-01-01', DATE '2024-01-05') OVERLAPS (DATE '2024-01-05', DATE '2024-02-01')", [(False,)]),
        ("SELECT (DATE '2024-01-05', DATE '2024-01-01') OVERLAPS (DATE '2024-01-04', INTERVAL '1 day')", [(True,)]),
        (
            "SELECT count(*) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING EXCLUDE NO OTHERS) FROM q ORDER BY id LIMIT 1",
            [(1,)],
        ),
        ("SELECT count(*) FROM generate_series(DATE '2024-01-30', '2024-02-02', '1 day')", [(4,)]),
        ("SELECT id FROM ONLY p", [(1,)]),
        ("SELECT string_to_table('a,b', ',')", [("a",), ("b",)]),
        ("SELECT convert_from('\\x6162'::bytea, 'UTF8'), decode('6162', 'hex')", [("ab", b"ab")]),
        ("SELECT scale(8.4100), min_scale(8.4100), scale(price) FROM p", [(4, 2, 2)]),
        ("SELECT 'epoch'::date::text, '1e3'::numeric::int, 'today'::date = current_date", [("1970-01-01", 1000, True)]),
        ("SELECT max_by(kind, id, 2), date_diff('day', DATE '2024-01-01', '2024-01-03') FROM q", [(["k", "m"], 2)]),
        ("SELECT make_time(8, 15, 23.5)", [(time(8, 15, 23, 500000),)]),
        (
            "SELECT date_trunc('day', TIMESTAMPTZ '2024-03-10 06:30:00Z', 'America/New_York')",
            [(datetime(2024, 3, 10, 5, tzinfo=UTC),)],
        ),
    ],
)
def test_rows(session: Session, sql: str, rows: list[tuple[Any, ...]]) -> None:
    """A query has the rows of PostgreSQL 15."""
    found = [tuple(row.values()) for row in ask(session, sql, dialect="postgres").rows]
    assert found == rows


@pytest.mark.parametrize(
    ("sql", "line"),
    [
        ("SELECT B'101'", "write its number"),
        ("SELECT x'ff'", "write its number"),
        ("SELECT DISTINCT v FROM q ORDER BY v FETCH FIRST 1 ROW WITH TIES", r"write SELECT \* FROM \(SELECT"),
        ("SELECT @ -5 + 3", "write abs"),
        ("SELECT *, id AS n FROM q ORDER BY 2 FETCH FIRST 1 ROW WITH TIES", "write the column's name in ORDER BY"),
        ("SELECT * FROM q ORDER BY 1 FETCH FIRST 1 ROW WITH TIES", "write the column's name in ORDER BY"),
        ("SELECT id FROM q ORDER BY 1.5 FETCH FIRST 1 ROW WITH TIES", "write the column's name in ORDER BY"),
        ("SELECT sum(v) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW) FROM q", "write two windows"),
        ("SELECT id FROM q FOR UPDATE", "write it without FOR UPDATE"),
        ("SELECT id FROM q WHERE kind @@ 'a'", "write text ILIKE"),
        ("SELECT @ v + 1 FROM q", r"write abs\(x\) \+ 1"),
        ("SELECT date_trunc('decade', now())", "write make_date"),
        ("SELECT id FROM q WHERE kind LIKE ANY (string_to_array(kind, ','))", r"any_match\(list, p -> x LIKE p\)"),
        ("SELECT id FROM q WHERE kind LIKE ANY ('a%')", "write x LIKE ANY"),
        ("SELECT convert_to('a', 'latin1')", "write convert_to"),
        ("SELECT to_tsvector(kind) FROM q", "write text ILIKE"),
        ("SELECT int4range(1, 5)", "write x >= a AND x < b"),
        ("SELECT jsonb_path_query(j, '$.a[*]') FROM q", "write jsonb_array_elements"),
        ("SELECT id FROM q WHERE j @? '$.a'", r"write \(j #> '\{a,0\}'\) IS NOT NULL"),
        ("SELECT 'NaN'::numeric", "write 'NaN'::double precision"),
        ("SELECT 'infinity'::timestamp", "write NULL, or '9999-12-31'"),
        ("SELECT rank(15) WITHIN GROUP (ORDER BY v) FROM q", r"write count\(\*\) FILTER"),
        ("WITH u AS (DELETE FROM p RETURNING id) SELECT id FROM u", "write it as a statement of its own"),
        ("SELECT json_object('a', id) FROM q", r"write json_build_object\('name', value\)"),
        ("SELECT * FROM ROWS FROM (generate_series(1, 2), unnest(ARRAY[1])) AS t(a, b)", r"write FROM unnest\(a, b\)"),
        ("SELECT ai.load_dataset('a')", "write CREATE EXTERNAL TABLE t STORED AS PARQUET"),
        ("SELECT nextval('s')", r"write gen_random_uuid\(\)"),
    ],
)
def test_lines(session: Session, sql: str, line: str) -> None:
    """A form without a counterpart is an error with the line to write, not another value."""
    with pytest.raises(FlightLLMError, match=line):
        ask(session, sql, dialect="postgres")


_JSON = """{"b": {"c": [1, 2]}, "a": "x", "n": null}"""


@pytest.mark.parametrize("dialect", ["postgres", "default"])
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (f"SELECT jsonb_object_keys('{_JSON}')", [("a",), ("b",), ("n",)]),
        (f"SELECT k FROM jsonb_object_keys('{_JSON}') AS k", [("a",), ("b",), ("n",)]),
        (f"SELECT value FROM jsonb_each('{_JSON}') WHERE key = 'b'", [('{"c": [1, 2]}',)]),
        (f"SELECT e.v FROM jsonb_each_text('{_JSON}') AS e(k, v) WHERE k <> 'a'", [('{"c": [1, 2]}',), (None,)]),
        ("SELECT jsonb_array_elements('[{\"k\":1}]') AS e", [('{"k": 1}',)]),
        ("SELECT id, e FROM q, jsonb_array_elements(q.j -> 'a') e ORDER BY 1, e", [(1, "1"), (1, "2"), (2, "3")]),
        ("SELECT e::INT + n AS x FROM json_array_elements('[5]') WITH ORDINALITY AS t(e, n)", [(6,)]),
        (
            'SELECT * FROM jsonb_to_recordset(\'[{"a":1,"b":{"c":2}},{"a":"2"}]\') AS t(a INT, b JSONB)',
            [(1, '{"c": 2}'), (2, None)],
        ),
        ("SELECT t.b FROM q, json_to_record(q.j) AS t(b INT, s TEXT) WHERE s = 'x'", [(None,)]),
        ("SELECT a + 1 AS a FROM json_to_record('{\"a\": 1.25}') AS t(a NUMERIC(8, 1))", [(Decimal("2.3"),)]),
    ],
)
def test_rows_of_json(session: Session, dialect: str, sql: str, rows: list[tuple[Any, ...]]) -> None:
    """Functions that make rows of JSON have PostgreSQL's rows and spaces."""
    found = [tuple(row.values()) for row in ask(session, sql, dialect=dialect).rows]
    assert sorted(found, key=str) == sorted(rows, key=str)


@pytest.mark.parametrize("dialect", ["postgres", "default"])
@pytest.mark.parametrize(
    ("sql", "line"),
    [
        ("SELECT (jsonb_each(j)).key FROM q", r"write it in FROM, as in FROM t, jsonb_each\(t.j\) AS e"),
        ("SELECT * FROM jsonb_to_record('{}')", "write it in FROM with its columns"),
        ("SELECT * FROM jsonb_to_record('{}') AS t(a)", "write a name and a type for each column"),
        ("SELECT * FROM jsonb_populate_record(NULL::p, '{}')", r"write jsonb_to_record\(j\) AS t"),
    ],
)
def test_lines_of_json(session: Session, dialect: str, sql: str, line: str) -> None:
    """A function without the types of its columns is an error with the line to write."""
    with pytest.raises(FlightLLMError, match=line):
        ask(session, sql, dialect=dialect)


def test_defaults_in_updates(session: Session) -> None:
    """SET takes DEFAULT."""
    session.update("SET flightllm.dialect = 'postgres'")
    session.update("UPDATE p SET price = DEFAULT")
    session.update("RESET flightllm.dialect")
    assert ask(session, "SELECT price::TEXT AS price FROM p").rows == [{"price": "1.50"}]


def test_lambdas_stay(session: Session) -> None:
    """The arrow in a function with a lambda is no field of JSON."""
    assert ask(session, "SELECT list_transform([1], x -> x + 1) AS l", dialect="postgres").rows == [{"l": [2]}]
