"""The protocol of a source: a database of one type at one address."""

from collections.abc import Callable, Iterator
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from flightllm.attached.columns import SourceTable


class MixedValuesError(Exception):
    """The column at a place of a SELECT has values of several types in one batch."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


class Rows(Protocol):
    """The rows of one SELECT, which a thread pulls. Another thread can cancel them."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; the columns are in the order of the SELECT."""

    def cancel(self) -> None:
        """Stop the source's work, if it goes on; `batches` then ends or raises an error."""

    def close(self) -> None:
        """Release the connection. Idempotent."""


class Source(Protocol):
    """A database of one type at one address. Safe to use from several threads.

    Methods raise the driver's own errors; the caller makes clear errors of them.
    """

    @property
    def dialect(self) -> str:
        """Return the name of sqlglot's dialect."""

    @property
    def default_schema(self) -> str:
        """Return the schema of names with two parts."""

    @property
    def literal(self) -> "Callable[[pa.Scalar], exp.Expr | None]":
        """Return the function that writes a constant in the dialect; None for a constant that it cannot write."""

    def tables(self) -> list[SourceTable]:
        """Read the tables and views that the login can read."""

    def rows(self, text: str) -> Rows:
        """Begin a SELECT in the source's dialect."""

    def close(self) -> None:
        """Release what the source holds. Idempotent."""
