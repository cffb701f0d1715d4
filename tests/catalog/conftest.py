"""A fresh catalog for each test here."""

import pytest

from flightllm.catalog import Catalog
from flightllm.config import LimitsConfig
from flightllm.observe.query_log import QueryLog


@pytest.fixture
def catalog() -> Catalog:
    """Return a catalog with system tables and nothing else."""
    return Catalog(LimitsConfig(), QueryLog())
