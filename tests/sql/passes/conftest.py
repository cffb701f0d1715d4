"""A session over the small tables, for each file of tests here."""

from collections.abc import Iterator

import pytest

from flightllm.session.session import Session
from tests.databases import small_database


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return one session for all tests of a file; a file can add tables to it."""
    database = small_database(tmp_path_factory.mktemp("passes"))
    yield database.session()
    database.close()
