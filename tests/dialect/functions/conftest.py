"""The database that functions of vendors read."""

from collections.abc import Iterator

import pytest

from flightllm.session.session import Session
from tests.databases import small_database
from tests.dialect.functions.tables import CREATE, NUMBERS


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open the typed table and the rows of aggregates."""
    database = small_database(tmp_path_factory.mktemp("functions"))
    session = database.session()
    session.update(CREATE)
    session.update(NUMBERS)
    yield session
    database.close()
