"""Columns without an alias are named after what their user wrote, and no query returns other rows for it."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from flightllm.dialect.output_names import output_names
from flightllm.session import Session
from flightllm.sql.output_names import NO_NAMES
from tests.databases import ask, small_database


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open the small tables."""
    database = small_database(tmp_path_factory.mktemp("names"))
    yield database.session()
    database.close()


NAMES = [
    ("SELECT 1, 'a', 1.50, TRUE, -1", ["1", "'a'", "1.50", "true", "-1"]),
    ("SELECT 1, 1", ["1", "1"]),
    ("SELECT id+1, (id  +\n2), UPPER( name ), p.note FROM people p", ["id+1", "(id + 2)", "upper(name)", "note"]),
    ("SELECT COUNT(*), sum(id) AS s, max(id) m FROM people", ["count(*)", "s", "m"]),
    (
        "SELECT count_if(flag), iff(id > 1, 'x', 'y') FROM people GROUP BY ALL",
        ["count_if(flag)", "iff(id > 1, 'x', 'y')"],
    ),
    ("""SELECT '{"a": 1}' -> 'a'""", ["""'{"a": 1}' -> 'a'"""]),
    ("SELECT AI_FILTER(PROMPT('Is it {0}', note)) FROM people", ["ai_filter(prompt('Is it {0}', note))"]),
    ("SELECT ai_filter('Is it tea?', note), id FROM people", ["ai_filter('Is it tea?', note)", "id"]),
    ("SELECT p.*, id + 1, 'x' FROM (SELECT id FROM people) p", ["id", "id + 1", "'x'"]),
    ("SELECT 'x', * EXCLUDE (id), 2 FROM (SELECT id, name FROM people) p", ["'x'", "name", "2"]),
    ("SELECT unnest([1, 2]), 3", ["unnest([1, 2])", "3"]),
    ("FROM people SELECT id * 2", ["id * 2"]),
    ("SELECT TOP 2 id + 1 FROM people", ["id + 1"]),
    ("SELECT DISTINCT id % 2 FROM people ORDER BY 1", ["id % 2"]),
    ("SELECT id % 2, sum(id) FROM people GROUP BY id % 2 ORDER BY id % 2", ["id % 2", "sum(id)"]),
    ("SELECT 1 + 1 UNION ALL SELECT 3 ORDER BY 1", ["1 + 1"]),
    ("(SELECT 1 + 1) UNION ALL (SELECT 3)", ["1 + 1"]),
    ("WITH q AS (SELECT 1 AS x) SELECT -x FROM q ORDER BY -x", ["-x"]),
    ("SELECT (SELECT 1), CASE WHEN true THEN 2 END", ["(SELECT 1)", "CASE WHEN true THEN 2 END"]),
    ("SELECT id::text, CAST(score AS INT) FROM people", ["id::text", "CAST(score AS INT)"]),
    ("SELECT INTERVAL '1 day' x, NULL IS NULL", ["x", "NULL IS NULL"]),
    ("SELECT current_user, current_schema()", ["current_user", "current_schema"]),
    ("SELECT sum(id) OVER (ORDER BY id) /* all */ FROM people", ["sum(id) OVER (ORDER BY id)"]),
    ("VALUES (1, 'a')", ["column1", "column2"]),
]


@pytest.mark.parametrize(("sql", "names"), NAMES)
def test_names(session: Session, sql: str, names: list[str]) -> None:
    """A query and its description have the same names."""
    assert ask(session, sql).table.column_names == names
    assert session.describe(sql).schema.names == names


@pytest.mark.parametrize(("sql", "names"), [one for one in NAMES if len(set(one[1])) == len(one[1])])
def test_names_of_tables_and_views(session: Session, sql: str, names: list[str]) -> None:
    """A table that is made of a query has them, and a view of one without a star."""
    session.update(f"CREATE OR REPLACE TABLE made AS {sql}")
    assert ask(session, "SELECT * FROM made").table.column_names == names
    if (
        "*" not in sql.replace("(*)", "").replace("id * 2", "")
        and "current" not in sql
        and "unnest" not in sql
        and "->" not in sql
    ):
        session.update(f"CREATE OR REPLACE VIEW shown AS {sql}")
        found = ask(session, "SELECT * FROM shown").table
        assert found.column_names == names
        assert found.num_rows == ask(session, sql).table.num_rows


def test_parameters_keep_their_names(session: Session) -> None:
    """A column with a parameter has one name before and after the value is known."""
    sql = "SELECT $1 + 1, upper($2)"
    names = ["$1 + 1", "upper($2)"]
    assert session.describe(sql).schema.names == names
    result = session.execute(sql, pa.record_batch({"1": [2], "2": ["a"]}))
    assert pa.Table.from_batches(list(result.batches)).to_pydict() == dict(zip(names, ([3], ["A"]), strict=True))


def test_names_that_differ_stay_so(session: Session) -> None:
    """Two names do not become one: a table could not have both columns."""
    assert ask(session, 'SELECT 1, 2 AS "1"').table.column_names == ["Int64(1)", "1"]


def test_other_dialects(session: Session) -> None:
    """The name is that of the text as it was sent."""
    session.update("SET flightllm.dialect = 'bigquery'")
    try:
        assert ask(session, "SELECT COUNTIF(flag), `id` + 1 FROM people GROUP BY ALL").table.column_names == [
            "countif(flag)",
            "`id` + 1",
        ]
    finally:
        session.update("RESET flightllm.dialect")


@pytest.mark.parametrize("sql", ["SHOW TABLES", "DESCRIBE t", "VALUES (1)", "SELECT 'a", "DROP TABLE t", ""])
def test_none(sql: str) -> None:
    """Other statements have no such names."""
    assert output_names(sql) == NO_NAMES
