"""Views with AI calls in any schema, and beside other things of their name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flightllm.config import Config, EngineConfig
from flightllm.session.database import Database
from flightllm.session.session import Session


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database."""
    database = Database.open(Config(engine=EngineConfig("fake"), data_folder=tmp_path))
    yield database
    database.close()


@pytest.fixture
def session(database: Database) -> Iterator[Session]:
    """Return a session that looks in another schema first."""
    own = database.session()
    for text in (
        "CREATE TABLE words (w TEXT)",
        "INSERT INTO words VALUES ('ash'), ('oak')",
        "CREATE TABLE said (w TEXT, g TEXT)",
        "INSERT INTO said VALUES ('plain', 'table')",
        "CREATE SCHEMA trees",
        "CREATE VIEW trees.said AS SELECT w, ai_gen('Of {w}?', w) AS g FROM words",
    ):
        own.update(text)
    yield own
    own.close()


def _words(session: Session, sql: str) -> list[Any]:
    table = session.execute(sql)
    found = [row for batch in table.batches for row in batch.to_pylist()]
    return sorted(row["w"] for row in found if row.get("g", "") is not None)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM trees.said",
        "SELECT said.w, said.g FROM trees.said",
        "SELECT trees.said.w, g FROM trees.said WHERE trees.said.w <> ''",
        "SELECT s.w, s.g FROM flightllm.trees.said AS s",
        "SELECT s.w FROM trees.said s JOIN words USING (w)",
        "WITH said AS (SELECT * FROM trees.said) SELECT * FROM said",
        "SELECT w FROM words WHERE w IN (SELECT w FROM trees.said)",
        "SELECT w FROM (SELECT * FROM trees.said) AS said",
        "SELECT w FROM words WHERE EXISTS (SELECT 1 FROM trees.said WHERE said.w = words.w)",
        'SELECT "said"."w" FROM "trees"."said"',
        "SELECT w FROM Trees.SAID",
    ],
)
def test_a_view_of_another_schema(session: Session, sql: str) -> None:
    """The name with its schema means the view, though a table has the same name in the usual schema."""
    assert _words(session, sql) == ["ash", "oak"]


def test_both_of_one_name(session: Session) -> None:
    """The table and the view are read together, each under its own name, also after USE."""
    assert _words(session, "SELECT w FROM trees.said UNION ALL SELECT w FROM said") == ["ash", "oak", "plain"]
    assert _words(session, "SELECT a.w FROM trees.said a, said b WHERE b.w = 'plain'") == ["ash", "oak"]
    session.update("USE trees")
    assert _words(session, "SELECT w FROM said") == ["ash", "oak"]
    assert _words(session, "SELECT w FROM public.said") == ["plain"]
    session.update("CREATE VIEW again AS SELECT said.w FROM said")
    session.update("USE public")
    assert _words(session, "SELECT w FROM trees.again") == ["ash", "oak"]


def test_two_views_of_one_name(session: Session) -> None:
    """Views of one name in two schemas keep their own rows."""
    session.update("CREATE SCHEMA stones")
    session.update("CREATE VIEW stones.said AS SELECT 'flint' AS w, ai_gen('x', w) AS g FROM words LIMIT 1")
    assert _words(session, "SELECT w FROM stones.said UNION ALL SELECT w FROM trees.said") == ["ash", "flint", "oak"]
    session.update("CREATE VIEW trees.all AS SELECT s.w FROM stones.said s UNION ALL SELECT w FROM trees.said")
    assert _words(session, "SELECT w FROM trees.all") == ["ash", "flint", "oak"]


def test_temporary(database: Database, session: Session) -> None:
    """A temporary view with AI calls is of its session only, as Ibis makes it to learn the columns of a query."""
    session.update("CREATE TEMPORARY VIEW mine AS SELECT w, ai_gen('Of {w}?', w) AS g FROM words")
    assert _words(session, "SELECT * FROM mine") == ["ash", "oak"]
    other = database.session()
    with pytest.raises(Exception, match="mine"):
        other.execute("SELECT * FROM mine")
    session.update("DROP VIEW mine")
    with pytest.raises(Exception, match="mine"):
        session.execute("SELECT * FROM mine")
