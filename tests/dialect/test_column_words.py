"""Words that PostgreSQL takes as names of columns without quotes: its own list of them, and the syntax that stays."""

from collections.abc import Iterator

import pytest

from flightllm.config import Config, EngineConfig
from flightllm.dialect.column_words import WORDS
from flightllm.errors import FlightLLMError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask
from tests.postgres import binaries, cluster


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open a database."""
    database = Database.open(Config(engine=EngineConfig("fake"), data_folder=tmp_path_factory.mktemp("data")))
    yield database.session()
    database.close()


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
