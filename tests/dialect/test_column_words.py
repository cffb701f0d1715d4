"""Words that PostgreSQL takes as names of columns without quotes: its own list of them, and the syntax that stays."""

from collections.abc import Iterator

import pytest

from flightllm.config import Config, EngineConfig
from flightllm.dialect.column_words import WORDS, column_words
from flightllm.dialect.source import NameContext, Source
from flightllm.errors import FlightLLMError
from flightllm.session.database import Database
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from tests.databases import ask
from tests.dialect.word_places import CHANGES, OTHER, QUERIES, ROW, TABLE, TABLES, steps
from tests.postgres import Answer, binaries, cluster

_WORDS = ("exists", "interval", "update")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open a database."""
    database = Database.open(Config(engine=EngineConfig("fake"), data_folder=tmp_path_factory.mktemp("data")))
    yield database.session()
    database.close()


def test_long_inserts() -> None:
    """An INSERT of rows is read without its scopes, which take a pass over all tokens."""
    source = Source(
        ParsedText("INSERT INTO t (a, b) VALUES (1, 'x'), (2, 'y')"), NameContext(lambda _: False, lambda _: {}, tuple)
    )
    assert not list(column_words(source))
    assert "scopes" not in vars(source)
    distinct = Source(
        ParsedText("SELECT DISTINCT ON (a) exists FROM t"), NameContext(lambda _: False, lambda _: {}, tuple)
    )
    assert len(list(column_words(distinct))) == 1


def _follow(session: Session, word: str) -> None:
    """Make a table with a column of this name, fill, change and read it."""
    session.update(f"CREATE OR REPLACE TABLE w ({word} INT, b INT NOT NULL, c VARCHAR(9))")
    session.update(f"INSERT INTO w ({word}, b) VALUES (1, 2)")
    session.update(f"INSERT INTO w (b, {word}) SELECT b, 1 + {word} FROM w WHERE {word} > 0")
    session.update(f"UPDATE w SET b = 3, {word} = 7 WHERE {word} = 2")
    found = ask(session, f"SELECT b, {word}, w.{word} AS x, b AS {word} FROM w WHERE {word} > 1 ORDER BY {word}")
    assert found.table.column(1).to_pylist() == found.table.column(2).to_pylist() == [7]
    session.update(f"DELETE FROM w WHERE {word} = 7")


@pytest.mark.parametrize("word", sorted(WORDS))
def test_words(session: Session, word: str) -> None:
    """A word names a column in CREATE TABLE, INSERT, UPDATE, SELECT and DELETE."""
    _follow(session, word)


@pytest.mark.slow
@pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed")
def test_all_words_of_postgres(session: Session) -> None:
    """Each word that PostgreSQL's own list allows as the name of a column is one here."""
    with cluster() as postgres:
        ((answer,),) = postgres.answers([], [["SELECT word FROM pg_get_keywords() WHERE catcode IN ('U', 'C')"]])
    refused = []
    for (word,) in answer.rows:
        try:
            _follow(session, str(word))
        except (FlightLLMError, AssertionError) as error:
            refused.append((word, str(error)))
    assert len(answer.rows) > 350
    assert refused == []


def _make(session: Session, word: str, table: str) -> None:
    """Make a table of one row with a column of this name."""
    session.update(TABLE.format(w=word, t=table).replace("CREATE", "CREATE OR REPLACE", 1))
    session.update(ROW.format(t=table))


@pytest.fixture(scope="module")
def places(session: Session) -> Session:
    """Make a table of one row for each of three words."""
    for sql in ("CREATE TABLE one (k INT)", "INSERT INTO one VALUES (1)"):
        session.update(sql)
    for word in _WORDS:
        _make(session, word, f"of_{word}")
    return session


@pytest.mark.parametrize("word", _WORDS)
@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT {w} x, ARRAY[{w}][{w}] AS y FROM {t}", [1, 1]),
        ("SELECT DISTINCT ON ({w}) {w}, c[{w} + 1] AS y FROM {t}", [1, 8]),
        ("SELECT b {w} FROM {t} WHERE {w} IS DISTINCT FROM b OR {w} IN (2)", [2]),
        ("SELECT {w} + 1 AS x, 1 - {w} AS y, {w} & 1 AS z, 4 | {w} AS u FROM {t}", [2, 0, 1, 5]),
        ("SELECT x.b FROM {t} AS y JOIN {t} AS x ON x.b > y.{w} INNER JOIN {t} AS z ON 1 = z.{w}", [2]),
        ("SELECT k FROM {t} JOIN one ON k = {w} CROSS JOIN (SELECT 1 AS z) AS x", [1]),
        ("SELECT sum(b) OVER (PARTITION BY {w} ROWS UNBOUNDED PRECEDING) AS x FROM {t} FETCH FIRST ROW ONLY", [2]),
        ("SELECT sum({w}) OVER x AS y FROM {t} GROUP BY {w} WINDOW x AS (PARTITION BY {w})", [1]),
        ("SELECT CASE {w} WHEN {w} THEN substring('abc' FROM {w} FOR {w}) END AS x FROM {t}", ["a"]),
    ],
)
def test_places(places: Session, word: str, sql: str, wanted: list[object]) -> None:
    """A word names a column before any operator, clause and bracket; the rows are those of PostgreSQL 15."""
    rows = ask(places, sql.format(w=word, t=f"of_{word}")).table.to_pylist()
    assert [list(row.values()) for row in rows] == [wanted]


@pytest.mark.slow
@pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed")
def test_all_places_of_postgres(session: Session) -> None:
    """A word that needs this rule names a column in all places where PostgreSQL takes it, and gives the same rows."""
    texts = [(word, place) for word in sorted(WORDS) for place in (*QUERIES, *CHANGES, *TABLES)]
    made = [sql.format(w=word, t=f"t_{word}") for word in sorted(WORDS) for sql in (TABLE, ROW)]
    with cluster() as postgres:
        answers = postgres.answers([*OTHER, *made], [steps(place, word, f"t_{word}") for word, place in texts])
    for sql in ("CREATE OR REPLACE TABLE v (k INT)", "INSERT INTO v VALUES (1)"):
        session.update(sql)
    refused, taken = [], 0
    for (word, place), answer in zip(texts, answers, strict=True):
        if not any(one.error for one in answer):
            taken += 1
            try:
                assert _rows_of(session, word, place) == _cells(answer[-1])
            except (FlightLLMError, AssertionError) as error:
                refused.append((word, place, str(error)))
    assert taken > 1_500
    assert refused == []


def _rows_of(session: Session, word: str, place: str) -> list[list[str]]:
    """Run the statement of a place; return the sorted rows that it gives, or that it leaves."""
    if place not in QUERIES[1:]:  # a query changes nothing
        _make(session, word, "places")
    *before, query = steps(place, word, "places")
    for sql in before:
        (session.update_returning if "RETURNING" in sql else session.update)(sql)
    try:
        rows = ask(session, query).table.to_pylist()
    finally:
        if place in TABLES:
            session.update("DROP VIEW n" if "VIEW" in place else "DROP TABLE n")
    return sorted([_cell(value) for value in row.values()] for row in rows)


def _cells(answer: Answer) -> list[list[str]]:
    return sorted([_number(str(cell)) for cell in row] for row in answer.rows)


def _cell(value: object) -> str:
    """Return a value as psql writes it, and a number without zeros at its end."""
    if isinstance(value, list):
        return f"{{{','.join(map(_cell, value))}}}"
    return ("t" if value else "f") if isinstance(value, bool) else _number(str(value))


def _number(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT INTERVAL -1 DAY + DATE '2024-01-02' AS d", "2024-01-01 00:00:00"),
        ("SELECT 1 FROM (VALUES (1), (2)) AS v(a) WHERE NOT EXISTS (SELECT 1 WHERE a = 1)", "1"),
        ("SELECT count(*) AS n FROM (SELECT CAST(NULL AS INTERVAL) AS i, arrow_cast(NULL, 'Utf8') AS t) AS q", "1"),
        ("SELECT a.* EXCLUDE b FROM (SELECT 1 AS a, 2 AS b) AS a", "1"),
        ("SELECT trim('x' FROM 'xyx') AS t", "y"),
    ],
)
def test_syntax_of_queries_stays(session: Session, sql: str, wanted: str) -> None:
    """The same words stay syntax before a number, a bracket, or the name of a column after a star."""
    assert [str(value) for row in ask(session, sql).table.to_pylist() for value in row.values()] == [wanted]


def test_syntax_stays(session: Session) -> None:
    """The same words stay syntax: keys of MySQL, constraints, changes on conflict, spans, and functions."""
    session.update("CREATE OR REPLACE TABLE k (a INT PRIMARY KEY, v INT)")
    session.update("INSERT INTO k VALUES (1, 2) ON CONFLICT (a) DO UPDATE SET v = 3")
    sql = "SELECT trim(' a ') AS t, INTERVAL '1 day' AS i, cast(NULL AS INTERVAL) AS n FROM k WHERE EXISTS (VALUES (1))"
    assert ask(session, sql).table.column("t").to_pylist() == ["a"]
    assert ask(session, "SELECT * EXCLUDE a FROM (SELECT 1 AS a, 2 AS b) AS t").table.column_names == ["b"]
    for listed in ("KEY (a)", "KEY ka (a)", "INDEX ia (a)", "EXCLUDE USING gist (a WITH =)", "INDEX USING BTREE (a)"):
        with pytest.raises(FlightLLMError, match=r"Indexes are not|EXCLUDE in CREATE TABLE is not"):
            session.update(f"CREATE TABLE bad (a INT, {listed})")
