"""A database for rule tests: each rule is applied alone to look at its plan, then the query runs with all of them."""

from collections.abc import Iterator

import pytest

from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import SAMPLES, small_database


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Return a database of small and sample tables."""
    database = small_database(tmp_path_factory.mktemp("rules"), tables=SAMPLES)
    yield database
    database.close()


@pytest.fixture(scope="module")
def session(database: Database) -> Session:
    """Return one session for all tests of a file."""
    return database.session()
