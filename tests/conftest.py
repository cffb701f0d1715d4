"""What all tests share."""

import os
from collections.abc import Iterator

import pytest
import structlog

# DataFusion starts its threads once per process, at its first use, which may come before a database chooses how many.
os.environ.setdefault("TOKIO_WORKER_THREADS", "64")


@pytest.fixture(autouse=True)
def _structlog_as_found() -> Iterator[None]:
    """Leave logging as the other tests expect it: commands and benchmarks set it up for their whole process."""
    yield
    structlog.reset_defaults()
