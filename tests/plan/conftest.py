"""A database whose queries are planned and looked at."""

from collections.abc import Iterator

import pytest

from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import small_database


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Return a database of small tables."""
    database = small_database(tmp_path_factory.mktemp("plans"))
    yield database
    database.close()


@pytest.fixture(scope="module")
def session(database: Database) -> Session:
    """Return one session for all tests of a file."""
    return database.session()
