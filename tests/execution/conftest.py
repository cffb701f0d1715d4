"""A database of small tables, and sessions over it."""

from collections.abc import Iterator

import pytest

from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import small_database


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Return a database of small tables."""
    database = small_database(tmp_path_factory.mktemp("queries"))
    yield database
    database.close()


@pytest.fixture
def session(database: Database) -> Session:
    """Return a fresh session."""
    return database.session()
