"""A table with a vector index over it, and embeddings that need no model."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from flightllm.config import Config, EmbeddingConfig, EngineConfig
from flightllm.session.database import Database
from flightllm.session.session import Session

FRUIT = """CREATE TABLE fruit AS SELECT * FROM (VALUES
    (1, 'a red apple'), (2, 'a green pear'), (3, NULL), (4, 'a red apple'), (5, 'the stock market'), (6, 'apple pie')
) AS v(id, name)"""


def open_database(folder: Path) -> Database:
    """Open a database with embeddings that need no model."""
    return Database.open(Config(engine=EngineConfig("fake"), embedding=EmbeddingConfig("fake"), data_folder=folder))


@contextmanager
def indexed(folder: Path) -> Iterator[Session]:
    """Open a session with the table `fruit` and the index `names` over it."""
    with closing(open_database(folder)) as database:
        session = database.session()
        session.update(FRUIT)
        assert session.update("CREATE VECTOR INDEX names ON fruit(name)") == 5
        yield session
