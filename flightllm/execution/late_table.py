"""The contract of tables in FROM whose rows ask models."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from flightllm.functions.call import AICall
from flightllm.learning.learned import LateFit
from flightllm.observe.query_record import QueryRecord
from flightllm.operators.call_context import ModelBinding

Bindings = Mapping[str, ModelBinding]


class LateTable(Protocol):
    """A table in FROM that asks models for its rows."""

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of its rows."""

    @property
    def calls(self) -> Collection[AICall]:
        """Return the calls that ask models."""

    @property
    def fits(self) -> Sequence[LateFit]:
        """Return the fits to labels that must be made before its calls ask."""

    def rows(self, bindings: Bindings, record: QueryRecord) -> pa.Table:
        """Ask the models, and return the rows."""

    def forget(self) -> None:
        """Drop the rows that a run has kept for several tables of its query, once all of them are made."""

    def drain(self, bindings: Bindings, record: QueryRecord) -> None:
        """Ask the models, and forget the answers: for a prediction."""

    def explain(self) -> list[tuple[str, str]]:
        """Return lines for EXPLAIN."""
