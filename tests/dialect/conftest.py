"""Fixtures of the tests of dialects."""

from collections.abc import Iterator

import pytest
from datafusion import SessionContext

from flightllm.common.names import ADD_UNITS, IN_UTC, TIME_BETWEEN, TIME_VALUE, TRUNCATE_UNIT, VALUE_TEXT
from flightllm.functions.internal import INTERNAL
from flightllm.session.session import Session
from flightllm.sql.passes.spark_values import CALLS as SPARK_CALLS
from tests.databases import small_database


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open the small tables for the tests of one file, on the fake engine, whose answers tell prompts apart."""
    database = small_database(tmp_path_factory.mktemp("dialect"))
    yield database.session()
    database.close()


@pytest.fixture(scope="session")
def known() -> frozenset[str]:
    """Return the functions that the server has, and those that passes rewrite in all dialects."""
    context = SessionContext()
    own = {udf_name for *_, udf_name in INTERNAL} | {ADD_UNITS, IN_UTC, TIME_VALUE}
    own |= {TRUNCATE_UNIT, VALUE_TEXT, TIME_BETWEEN}
    return frozenset([*context.udfs(), *context.udafs(), *context.udwfs(), *own, *SPARK_CALLS])
