"""Columns have the names that the vendors give them, and texts find them by these names."""

from collections.abc import Iterator

import pytest

from flightllm.errors import SqlError, UnsupportedError
from flightllm.session.session import Session
from tests.databases import ask, small_database

_KEEPING = ("bigquery", "databricks", "spark", "duckdb")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open the small tables, one with a struct, and one with capitals in the names of its columns."""
    database = small_database(tmp_path_factory.mktemp("names"))
    session = database.session()
    session.update("CREATE TABLE parts AS SELECT id, {'city': name, 'size': {'rooms': id}} AS r FROM people")
    session.update('CREATE TABLE reviews AS SELECT id AS "reviewId", name AS "reviewText" FROM people')
    yield session
    database.close()


def _names(session: Session, sql: str, dialect: str) -> list[str]:
    return list(ask(session, sql, dialect=dialect).table.schema.names)


@pytest.mark.parametrize("dialect", ["default", "snowflake", "bigquery", "databricks", "duckdb"])
@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT city FROM (SELECT r.city FROM parts) q WHERE city = 'Bob'", ["city"]),
        ("SELECT * FROM (SELECT q.r.city, q.id FROM parts q) p WHERE city = 'Bob'", ["city", "id"]),
        ("WITH c AS (SELECT r.city, r.size.rooms FROM parts) SELECT rooms, city FROM c WHERE rooms = 2", None),
        ("SELECT city, id FROM (SELECT p.r.city, public.parts.id FROM parts p, parts WHERE p.id = 2) q LIMIT 1", None),
    ],
)  # fmt: skip
def test_fields(session: Session, dialect: str, sql: str, names: list[str] | None) -> None:
    """The field of a struct names the column of an inner query, and a table's name before a column does not matter."""
    found = ask(session, sql, dialect=dialect)
    assert len(found.rows) == 1
    assert found.rows[0]["city"] == "Bob"
    assert names is None or found.table.schema.names == names


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 AS reviewScore",
        "SELECT max(id) reviewScore FROM people GROUP BY name HAVING reviewscore > 7 ORDER BY reviewScore LIMIT 1",
        "WITH c AS (SELECT id AS reviewScore FROM people) SELECT reviewScore FROM c WHERE REVIEWSCORE = 1",
        "SELECT q.reviewScore FROM (SELECT id AS reviewScore FROM people) q ORDER BY q.reviewscore LIMIT 1",
        "SELECT id AS reviewScore FROM people WHERE id = 1 UNION ALL SELECT id FROM people WHERE id = 2",
    ],
)
def test_aliases_keep_their_case(session: Session, sql: str) -> None:
    """An alias has its capitals in the dialects that keep them; elsewhere its case folds."""
    for dialect in _KEEPING:
        assert _names(session, sql, dialect) == ["reviewScore"]
    for dialect in ("default", "snowflake", "postgres"):
        assert _names(session, sql, dialect) == ["reviewscore"]


def test_columns_as_written(session: Session) -> None:
    """BigQuery and Spark name a column as SELECT spells it, and DuckDB as its table does."""
    sql = "SELECT p.Id, NAME FROM People p WHERE ID = 1"
    assert _names(session, sql, "bigquery") == _names(session, sql, "databricks") == ["Id", "NAME"]
    assert _names(session, sql, "duckdb") == _names(session, sql, "snowflake") == ["id", "name"]


def test_created_columns(session: Session) -> None:
    """A table that a dialect creates keeps the case of its columns, and every dialect reads them without quotes."""
    with_dialect = "SET flightllm.dialect = 'bigquery'", "RESET flightllm.dialect"
    session.update(with_dialect[0])
    session.update("CREATE OR REPLACE TABLE made AS SELECT id AS userId, Name FROM people WHERE id = 2")
    session.update(with_dialect[1])
    for dialect in (*_KEEPING, "default", "snowflake", "postgres"):
        assert ask(session, "SELECT userId AS a, NAME AS b FROM made", dialect=dialect).rows == [{"a": 2, "b": "Bob"}]


@pytest.mark.parametrize("dialect", ["snowflake", "databricks", "duckdb"])
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT 1 AS a, a + 1 AS b, a * b AS c", [(1, 2, 2)]),
        ("SELECT id + 1 AS b, b * 2 AS c FROM people WHERE b > 8 ORDER BY c", [(9, 18), (10, 20)]),
        ("SELECT id AS name, name AS other FROM people WHERE id = 2", [(2, "Bob")]),
        ("SELECT sum(id) AS s, s + count(*) AS t FROM people", [(45, 54)]),
        ("SELECT id AS year, extract(year FROM day) AS y, year + y AS z FROM people WHERE id = 1", [(1, 2024, 2025)]),
        ("SELECT 5 AS x, (SELECT max(x) FROM (VALUES (2)) v(x)) AS y", [(5, 2)]),
        ("SELECT q.n AS m, m + 1 AS o FROM (SELECT id AS n FROM people WHERE id = 3) q", [(3, 4)]),
        ("SELECT 'a' AS k, upper(k) || k AS l", [("a", "Aa")]),
    ],
)
def test_lateral_aliases(session: Session, dialect: str, sql: str, rows: list[tuple[object, ...]]) -> None:
    """An item can read the aliases before it; a column of a table comes first."""
    assert [tuple(row.values()) for row in ask(session, sql, dialect=dialect).rows] == rows


def test_aliases_of_calls(session: Session) -> None:
    """The alias of an AI call asks nothing twice, in items and in WHERE."""
    plain = ask(session, "SELECT ai_classify(note, ['u', 'v']) AS c FROM people", cache="off")
    again = ask(session, "SELECT ai_classify(note, ['u', 'v']) AS c, c || '!' AS d FROM people WHERE c IS NOT NULL",
                cache="off", dialect="snowflake")  # fmt: skip
    assert again.calls == plain.calls
    assert all(row["d"] == f"{row['c']}!" for row in again.rows)


def test_refused_aliases(session: Session) -> None:
    """An alias that would have another value for each use, or that grows without end, is refused."""
    with pytest.raises(UnsupportedError, match="subquery"):
        ask(session, "SELECT random() AS r, r + 1 AS q", dialect="duckdb")
    doubled = ", ".join(f"a{place} + a{place} AS a{place + 1}" for place in range(30))
    with pytest.raises(UnsupportedError, match="subquery"):
        ask(session, f"SELECT id AS a0, {doubled} FROM people", dialect="snowflake")
    for dialect in ("default", "postgres", "bigquery"):  # these read no alias
        with pytest.raises(SqlError, match="No field named b"):
            ask(session, "SELECT id AS b, b + 1 AS c FROM people", dialect=dialect)


@pytest.mark.parametrize("dialect", ["bigquery", "databricks", "spark"])
@pytest.mark.parametrize(
    "sql",
    [
        'SELECT "reviewId" FROM reviews',
        'SELECT 1 AS one, "reviewid" FROM reviews r',
        'SELECT count(*) FROM reviews GROUP BY "reviewText"',
        'SELECT reviewText FROM reviews ORDER BY "reviewId" DESC',
        "SELECT reviewText FROM reviews WHERE \"reviewText\" = 'Bob'",
        "SELECT reviewText FROM reviews WHERE true AND \"reviewText\" IN ('Bob')",
    ],
)
def test_columns_in_double_quotes(session: Session, dialect: str, sql: str) -> None:
    """A column in double quotes is an error that says to write backticks."""
    with pytest.raises(SqlError, match=r"`review(Id|Text)` in backticks"):
        ask(session, sql, dialect=dialect)


def test_texts_in_double_quotes(session: Session) -> None:
    """A text in double quotes stays a text beside columns, in arguments, and where no column has this name."""
    for sql, rows in [
        ('SELECT "other" AS x FROM reviews LIMIT 1', 1),
        ('SELECT "reviewId" AS x FROM reviews LIMIT 1', 1),
        ('SELECT concat("reviewId", reviewText) AS x FROM reviews WHERE reviewText = "Bob"', 1),
        ('SELECT reviewId FROM reviews WHERE reviewText = "reviewText"', 0),
        ('SELECT reviewId FROM reviews WHERE reviewText IN ("Bob", "reviewId")', 1),
    ]:
        assert len(ask(session, sql, dialect="bigquery").rows) == rows
