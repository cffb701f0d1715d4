"""Clusters of vectors, and their names."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flightllm.config import EmbeddingConfig
from flightllm.llm.engine import Request
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, explained, open_database
from tests.using_engines import Scripted, using

SQL = "SELECT ai_cluster(text, k => 3) AS name, count(*) AS n FROM notes GROUP BY 1 ORDER BY 1"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database with an embedding model that needs no model files."""
    texts = [f"{word} {n}" for word in ("tea", "car", "sun") for n in range(10)]
    pq.write_table(pa.table({"text": pa.array([*texts, None], pa.string())}), tmp_path / "notes.parquet")
    embedding = EmbeddingConfig("fake")
    with closing(open_database(tmp_path, embedding=embedding, tables={"notes": tmp_path / "notes.parquet"})) as found:
        yield found


def session_of(database: Database, answer: Callable[[Request], str]) -> tuple[Session, Scripted]:
    """Return a session whose engine names clusters."""
    engine = Scripted(answer)
    return using(database, engine).session(), engine


def test_each_cluster_has_a_name(database: Database) -> None:
    """One prompt names a cluster, and equal names get numbers; the second run asks nothing."""
    session, engine = session_of(database, lambda _: " Things. ")
    found = ask(session, SQL)
    assert [row["name"] for row in found.rows] == ["Things", "Things (2)", "Things (3)", None]
    assert sum(row["n"] for row in found.rows) == 31
    assert len(engine.asked) == 3
    again = ask(session, SQL)
    assert again.rows == found.rows
    assert len(engine.asked) == 3


def test_the_order_of_rows_changes_nothing(database: Database) -> None:
    """The clusters depend on the texts alone."""
    rows = []
    for order in ("text", "text DESC"):
        session, _ = session_of(database, lambda request: str(len(request.prompt)))
        inner = f"(SELECT * FROM notes ORDER BY {order})"
        found = ask(session, f"SELECT text, ai_cluster(text, k => 3) AS name FROM {inner} WHERE text IS NOT NULL")
        rows.append(sorted((row["text"], row["name"]) for row in found.rows))
    assert rows[0] == rows[1]


def test_fewer_texts_than_clusters(database: Database) -> None:
    """Two texts make two clusters at most, and no text makes none."""
    session, engine = session_of(database, lambda _: "A pair")
    found = ask(session, "SELECT ai_cluster(text) AS name FROM notes WHERE text IN ('tea 1', 'car 2')")
    assert sorted(row["name"] for row in found.rows) == ["A pair", "A pair (2)"]
    ask(session, "SELECT ai_cluster(text) AS name FROM notes WHERE false")
    assert len(engine.asked) == 2


def test_explain(database: Database) -> None:
    """The prediction counts a prompt for each cluster, and ANALYZE tells their sizes."""
    session, engine = session_of(database, lambda _: "Things")
    assert "30 texts in 3 clusters" in str(explained(session, SQL))
    assert not engine.asked
    assert "30 texts in 3 clusters" in str(explained(session, f"ANALYZE {SQL}"))
