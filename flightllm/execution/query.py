"""A planned query that has not run yet."""

from typing import Protocol

import pyarrow as pa

from flightllm.datafusion.run import Batches
from flightllm.observe.query_record import QueryRecord


class Query(Protocol):
    """A planned query that has not run yet."""

    @property
    def schema(self) -> pa.Schema:
        """Return the schema that users see."""

    def run(self, record: QueryRecord) -> Batches:
        """Run the query; closing the iterator or cancelling the record stops it."""

    def explain(self) -> list[tuple[str, str]]:
        """Return titles and texts of the plan."""
