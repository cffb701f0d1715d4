"""Names of columns without an alias, as PostgreSQL 15 gives them."""

import pytest

from flightllm.dialect.output_names import output_names
from flightllm.sql.parsed_text import ParsedText

NAMES = {
    "count(*)": "count",
    "count(*) FILTER (WHERE f)": "count",
    "sum(a) OVER (PARTITION BY b ORDER BY a)": "sum",
    "percentile_cont(0.5) WITHIN GROUP (ORDER BY a)": "percentile_cont",
    "a + 1": "?column?",
    "-a": "?column?",
    "NOT f": "?column?",
    "a IS NULL": "?column?",
    "a IN (1, 2)": "?column?",
    "b LIKE 'x'": "?column?",
    "b || 'x'": "?column?",
    "a = ANY(ARRAY[1, 2])": "?column?",
    "1": "?column?",
    "'x'": "?column?",
    "true": "?column?",
    "NULL": "?column?",
    "b::text": "b",
    "upper(b)::text": "upper",
    "(a + 1)::text": "text",
    "f::int::text": "f",
    "1::int": "int4",
    "CAST('1' AS varchar(3))": "varchar",
    "CAST(1 AS double precision)": "float8",
    "CAST(a AS text)": "a",
    "'x'::char(3)": "bpchar",
    "'{1,2}'::int[]": "int4",
    "('{1,2}'::int[])[1]": "int4",
    "timestamp with time zone '2020-01-01 00:00:00+00'": "timestamptz",
    "date '2020-01-01'": "date",
    "interval '1' day": "interval",
    "CASE WHEN f THEN 1 END": "case",
    "CASE WHEN f THEN 1 ELSE a END": "a",
    "CASE WHEN f THEN CASE WHEN f THEN a ELSE 1 END ELSE b END": "b",
    "CASE WHEN f THEN 'x' ELSE 'y' END": "case",
    "coalesce(b, 'q')": "coalesce",
    "nullif(a, 1)": "nullif",
    "extract(year FROM d)": "extract",
    "trim(LEADING 'x' FROM b)": "ltrim",
    "trim(b)": "btrim",
    "substring(b FROM 1 FOR 2)": "substring",
    "now() AT TIME ZONE 'UTC'": "timezone",
    "current_date": "current_date",
    "ARRAY[1, 2]": "array",
    "(ARRAY[1, 2])[1]": "array",
    "ARRAY(SELECT a FROM t)": "array",
    "(SELECT max(a) FROM t)": "max",
    "(SELECT 1 AS q)": "q",
    "EXISTS (SELECT 1)": "exists",
    "row(1, 2)": "row",
    "(1, 2)": "row",
    "(1, 2)::text": "row",
    "ARRAY[1]::text": "array",
    "(SELECT 1)::text": "?column?",
    "(SELECT 1::int)::text": "int4",
    '1::"char"': "char",
    "localtimestamp": "localtimestamp",
    "overlay(b PLACING 'x' FROM 1)": "overlay",
    "((upper(b)))": "upper",
    'b COLLATE "C"': "b",
    "pg_catalog.upper(b)": "upper",
    "ai_gen('Recommend it?', b)": "ai_gen",
}
"""Expressions and the names of their columns; PostgreSQL 15.18 gave these names, but for the AI function."""


@pytest.mark.parametrize("expression", NAMES)
def test_names(expression: str) -> None:
    """An expression has PostgreSQL's name, also after the items of a WITH query."""
    asked = f"WITH q AS (SELECT 1 AS z) SELECT z, {expression} FROM q"
    for text, place in ((f"SELECT {expression} FROM t", 0), (asked, 1)):
        items = output_names(ParsedText(text), as_postgres=True).items
        assert items[place].name == NAMES[expression]


@pytest.mark.parametrize("item", ["a", "t.a", "(a)", "a AS x", "a x", '"A"', "upper(b) AS u", "*", "t.*"])
def test_named_already(item: str) -> None:
    """Columns and aliases keep their names."""
    assert output_names(ParsedText(f"SELECT {item} FROM t"), as_postgres=True).items[0].name is None


def test_equal_names() -> None:
    """Two columns of a query can have one name; a new table's columns keep distinct names."""
    query = "SELECT count(a), count(b) FROM t"
    kept = ["count(t.a)", "count(t.b)"]
    assert output_names(ParsedText(query), as_postgres=True).shown(kept) == ["count", "count"]
    assert output_names(ParsedText(f"CREATE TABLE n AS {query}"), as_postgres=True).shown(kept) == [
        "count(a)",
        "count(b)",
    ]


@pytest.mark.parametrize("as_postgres", [False, True])
def test_a_column_beside_its_cast(as_postgres: bool) -> None:
    """A column keeps its name beside a cast of it, where DataFusion calls the column `t.a`."""
    names = output_names(ParsedText("SELECT a::text, a, Kept FROM t"), as_postgres=as_postgres)
    assert names.shown(["a::TEXT", "t.a", "KEPT"]) == ["a" if as_postgres else "a::text", "a", "KEPT"]
