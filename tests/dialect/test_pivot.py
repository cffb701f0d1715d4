"""PIVOT gives one column for each listed value, and UNPIVOT one row for each column, as in DuckDB."""

import re

import pytest

from flightllm.dialect import rewrite
from flightllm.errors import FlightLLMError, SqlError
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from tests.databases import ask
from tests.dialect.places import EMPTY


def _found(session: Session, sql: str, dialect: str = "default") -> tuple[list[str], list[tuple[object, ...]]]:
    """Return the names of columns, and the rows in some fixed order."""
    session.update(f"SET flightllm.dialect = '{dialect}'")
    try:
        table = ask(session, sql).table
        assert session.describe(sql).schema == table.schema
    finally:
        session.update("RESET flightllm.dialect")
    return table.column_names, sorted((tuple(row.values()) for row in table.to_pylist()), key=str)


_BY_FLAG = [(False, None, 2), (None, None, None), (True, 16, None)]


@pytest.mark.parametrize(
    ("sql", "names", "rows"),
    [
        ("PIVOT people ON name IN ('Ann', 'Bob' AS b) USING sum(id) GROUP BY flag", ["flag", "Ann", "b"], _BY_FLAG),
        (
            "PIVOT (SELECT flag, name, id FROM people) ON name IN ('Ann', 'Bob') USING sum(id);",
            ["flag", "Ann", "Bob"],
            _BY_FLAG,
        ),
        (
            "WITH p AS (PIVOT people ON name IN ('Ann', 'Bob') USING sum(id) AS s GROUP BY flag) SELECT * FROM p",
            ["flag", "Ann_s", "Bob_s"],
            _BY_FLAG,
        ),
        (
            "SELECT p.* FROM (SELECT flag, name, id FROM people) PIVOT (sum(id) FOR name IN ('Ann', 'Bob')) AS p",
            ["flag", "Ann", "Bob"],
            _BY_FLAG,
        ),
        (
            "PIVOT people ON name IN (NULL) USING max(id + 1) AS m, count(*) AS n GROUP BY flag ORDER BY flag LIMIT 2",
            ["flag", "NULL_m", "NULL_n"],
            [(False, None, 0), (True, None, 0)],
        ),
        ("FROM likes PIVOT (sum(weight) FOR thing IN ('tea')) SELECT max(tea)", ["max(tea)"], [(2,)]),
        (
            "WITH q AS (SELECT flag, name, id FROM people) PIVOT q ON name IN ('Ann', 'Bob') USING sum(id)",
            ["flag", "Ann", "Bob"],
            _BY_FLAG,
        ),
        ("(PIVOT people ON name IN ('Ann', 'Bob') USING sum(id) GROUP BY flag)", ["flag", "Ann", "Bob"], _BY_FLAG),
        (
            "PIVOT (SELECT flag, name, id FROM people) ON name IN ('Ann', 'Bob') USING sum(id) GROUP BY ALL",
            ["flag", "Ann", "Bob"],
            _BY_FLAG,
        ),
        ("PIVOT (SELECT true AS a, false AS b) ON a OR b IN (true, false) USING count(*)", ["true", "false"], [(1, 0)]),
        ("WITH q AS (SELECT id FROM people WHERE id < 2) UNPIVOT q ON id", ["name", "value"], [("id", 1)]),
        ("(UNPIVOT (SELECT 1 AS id) ON id)", ["name", "value"], [("id", 1)]),
        ("PIVOT likes ON person_id IN (1, 7) GROUP BY thing LIMIT 0", ["thing", "1", "7"], []),
        (
            "FROM (SELECT id, flag, score FROM people WHERE id > 5) UNPIVOT (v FOR n IN (id, score AS points))",
            ["flag", "n", "v"],
            [
                (False, "id", 9.0),
                (False, "points", 0.0),
                (None, "id", 6.0),
                (True, "id", 7.0),
                (True, "id", 8.0),
                (True, "points", 3.5),
                (True, "points", 4.0),
            ],
        ),
        (
            "UNPIVOT (SELECT id, name FROM people WHERE id < 3) ON id INTO NAME n VALUE v",
            ["name", "n", "v"],
            [("Ann", "id", 1), ("Bob", "id", 2)],
        ),
        (
            "UNPIVOT (SELECT 1 AS name, 5 AS value, 7 AS include) ON name, value, include INTO NAME name VALUE value",
            ["name", "value"],
            [("include", 7), ("name", 1), ("value", 5)],
        ),
        ("UNPIVOT (SELECT 5 AS name, 6 AS value) ON name, value", ["name", "value"], [("name", 5), ("value", 6)]),
        (
            "UNPIVOT (SELECT 5 AS b, 6 AS nulls) ON b, nulls INTO VALUE name NAME value",
            ["value", "name"],
            [("b", 5), ("nulls", 6)],
        ),
        (
            "UNPIVOT (SELECT 5 AS include, NULL AS b) INCLUDE NULLS ON include, b",
            ["name", "value"],
            [("b", None), ("include", 5)],
        ),
        (
            "SELECT * FROM (SELECT score FROM people WHERE id = 6) UNPIVOT INCLUDE NULLS (v FOR n IN (score))",
            ["n", "v"],
            [("score", None)],
        ),
    ],
)
def test_rows(session: Session, sql: str, names: list[str], rows: list[tuple[object, ...]]) -> None:
    """Columns that are not named make the groups; a group without a value has NULL."""
    assert _found(session, sql) == (names, rows)


@pytest.mark.parametrize(
    ("sql", "names", "rows"),
    [
        ("PIVOT sales ON kind IN ('x', 'y') USING max(date)", ["shop", "x", "y"], [("a", 3, 2)]),
        ("FROM sales PIVOT (count(date) FOR kind IN ('x', 'y'))", ["shop", "x", "y"], [("a", 2, 1)]),
        ("PIVOT sales ON date IN (1) USING count(kind) GROUP BY shop", ["shop", "1"], [("a", 1)]),
        ("PIVOT (SELECT date FROM sales) ON date IN (1, 2) USING count(*)", ["1", "2"], [(1, 1)]),
        (
            "PIVOT sales ON kind IN ('x') USING string_agg(date::text, '+' ORDER BY date DESC)",
            ["shop", "x"],
            [("a", "3+1")],
        ),
        ("PIVOT (FROM sales) ON kind IN ('x') USING sum(date::double precision)", ["shop", "x"], [("a", 4.0)]),
        (
            "PIVOT (FROM sales) ON kind IN ('x') USING max(extract(year FROM DATE '2024-01-02') + date)",
            ["shop", "x"],
            [("a", 2027)],
        ),
        ("PIVOT sales AS s ON s.kind IN ('x') USING max(s.date) date", ["shop", "x_date"], [("a", 3)]),
        ("PIVOT fields ON kind IN ('x') USING max(part.date)", ["text", "x"], [('{"a": 1}', 5)]),
        ("""PIVOT fields ON kind IN ('x') USING max(text -> 'a')""", ["part", "x"], [({"date": 5}, "1")]),
    ],
)
def test_columns_with_names_of_types(
    session: Session, sql: str, names: list[str], rows: list[tuple[object, ...]]
) -> None:
    """A column that an aggregate or a list names makes no groups, and no other word of it is taken for a column."""
    session.update(
        "CREATE OR REPLACE TABLE sales AS"
        " SELECT 'a' AS shop, kind, date FROM (VALUES ('x', 1), ('y', 2), ('x', 3)) AS s(kind, date)"
    )
    session.update("CREATE OR REPLACE TABLE fields AS SELECT 'x' AS kind, {'date': 5} AS part, '{\"a\": 1}' AS text")
    assert _found(session, sql) == (names, rows)


@pytest.mark.parametrize(
    ("dialect", "sql", "names"),
    [
        ("snowflake", "SELECT * FROM {t} PIVOT (sum(id) FOR name IN ('Ann', 'Bob' AS b))", ["'Ann'", "b"]),
        ("bigquery", "SELECT * FROM {t} PIVOT (sum(id) AS s FOR name IN ('Ann' AS a, 'Bob'))", ["s_a", "s_Bob"]),
        ("databricks", "SELECT * FROM {t} PIVOT (sum(id) AS s FOR name IN ('Ann' AS a, 'Bob'))", ["a", "Bob"]),
        ("duckdb", "PIVOT {t} ON name IN ('Ann', 'Bob') USING sum(id)", ["Ann", "Bob"]),
    ],
)
def test_names(session: Session, dialect: str, sql: str, names: list[str]) -> None:
    """Each dialect names the columns as it does, and the values are the same."""
    found, rows = _found(session, sql.format(t="(SELECT id, name FROM people)"), dialect)
    assert rows == [(16, 2)]
    assert found == names


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("PIVOT people ON name USING sum(id)", "PIVOT people ON name IN ('x', 'y') USING sum(id)"),
        ("SELECT 1 FROM people PIVOT (sum(id) FOR name IN (ANY))", "PIVOT (sum(id) FOR name IN ('x', 'y'))"),
        ("PIVOT people ON name, flag USING sum(id)", "PIVOT at 1:1 takes one column"),
        ("PIVOT people ON name IN ('a') USING sum(id) + 1", "write an aggregate such as sum(a)"),
        ("PIVOT people ON name IN (?) USING sum(id)", "write $1, $2 in place of ?"),
        (
            "PIVOT (PIVOT people ON name IN ('a')) ON a IN (1)",
            "PIVOT at 1:1 reads from another PIVOT, which is not supported: write WITH p AS",
        ),
        ("UNPIVOT (PIVOT people ON name IN ('a')) ON a", "UNPIVOT at 1:1 reads from another PIVOT"),
        ("PIVOT people", "write PIVOT t ON a IN ('x', 'y')"),
        (
            "SELECT * FROM people UNPIVOT ((a, b) FOR n IN ((id, score)))",
            "UNPIVOT at 1:22: several columns of values are not supported",
        ),
        ("UNPIVOT people ON id + 1", "one of its columns is not a plain name"),
        ("UNPIVOT people", "write UNPIVOT t ON a, b"),
    ],
)
def test_refused(session: Session, sql: str, said: str) -> None:
    """What cannot be planned names the line to write."""
    with pytest.raises(FlightLLMError) as error:
        session.describe(sql)
    assert said in str(error.value)


@pytest.mark.parametrize(
    "sql",
    [
        "UNPIVOT {t} ON a, b, c",
        "SELECT * FROM {t} UNPIVOT (v FOR n IN (a, b, c))",
        "SELECT (SELECT max(v) FROM {t} UNPIVOT (v FOR n IN (c, b, a)))",
        "SELECT 1 WHERE EXISTS (FROM {t} UNPIVOT (v FOR n IN (b, a)))",
        "WITH q AS (UNPIVOT {t} ON a, b) SELECT 1 FROM q",
        "SELECT ai_gen('x', n) FROM {t} UNPIVOT (v FOR n IN (a, b))",
        "EXPLAIN UNPIVOT {t} ON a, b",
    ],
)
def test_texts_and_numbers_are_not_mixed(session: Session, sql: str) -> None:
    """Columns of texts and numbers are refused when the query is planned, rows or not, with the cast to write."""
    with pytest.raises(SqlError) as error:
        session.describe(sql.format(t="(SELECT 1 AS a, '007' AS b, NULL AS c WHERE false)"))
    assert re.match(
        r"UNPIVOT at \d+:\d+: the column b holds texts and a holds Int64: cast one, as in", str(error.value)
    )
    assert 'SELECT * REPLACE ("a"::varchar AS "a") FROM' in str(error.value)


def test_texts_and_numbers_are_not_mixed_in_a_view(session: Session) -> None:
    """A view that would mix them is not made."""
    with pytest.raises(SqlError, match="the column name holds texts and id holds Int64"):
        session.update("CREATE VIEW mixed AS SELECT * FROM people UNPIVOT (v FOR n IN (id, name))")


def test_columns_are_found_by_any_name(session: Session) -> None:
    """The columns of one UNPIVOT are told apart by names with quotes, commas and letters beyond ASCII."""
    first, second = '"a"", \'é"', '"b:Int64 [x]"'
    with pytest.raises(SqlError) as error:
        session.describe(f"UNPIVOT (SELECT 1 AS {first}, '2' AS {second}) ON {first}, {second}")
    assert "the column b:Int64 [x] holds texts and a\", 'é holds Int64" in str(error.value)


@pytest.mark.parametrize("kind", ["Utf8", "Utf8View", "LargeUtf8", "Dictionary(Int32, Utf8)"])
def test_texts_of_all_types_are_alike(session: Session, kind: str) -> None:
    """Texts of any type, and NULL, make one column of texts."""
    texts = f"SELECT '1' AS a, arrow_cast('007', '{kind}') AS b, NULL AS \"c, of [x]\""
    assert _found(session, f'UNPIVOT ({texts}) ON a, b, "c, of [x]"')[1] == [("a", "1"), ("b", "007")]


@pytest.mark.parametrize(
    "sql", ["SELECT pivot FROM pivot", "SELECT unpivot.a FROM t AS unpivot (a)", "SELECT 1 AS pivot"]
)
def test_leaves_alone(sql: str) -> None:
    """Both words are names elsewhere."""
    assert rewrite(ParsedText(sql), EMPTY).text == sql


@pytest.mark.parametrize("count", [63, 64, 65])
def test_pivot_of_many_numbers(session: Session, count: int) -> None:
    """Each number of a long list gets its column."""
    numbers = ", ".join(map(str, range(count)))
    names, rows = _found(session, f"PIVOT (SELECT id, id AS n FROM people) ON n IN ({numbers}) USING count(*)")
    assert names == ["id", *map(str, range(count))]
    assert all(row[int(str(row[0])) + 1] == 1 for row in rows)
