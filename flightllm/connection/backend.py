"""The sessions that connections use, of a database in this process or of a server."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from flightllm.client import Progress

Watch = Callable[[Callable[[], Progress | None]], None]
"""A function that the thread that waits for a statement calls about ten times a second.

Its argument returns the work of the statement so far; for a server this takes a message.
"""


@dataclass(frozen=True, slots=True)
class Change:
    """A change that has run."""

    affected: int | None
    """The number of changed rows; None where the statement does not count rows."""
    rows: pa.Table | None = None
    """The rows of RETURNING."""
    used: Callable[[], Progress | None] = lambda: None
    """Returns the work of the change; for a server, this takes messages."""


class Run(Protocol):
    """A query that runs while the caller pulls its batches."""

    @property
    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the one iterator over the rows; closing it stops the query."""

    def used(self) -> Progress | None:
        """Return the work of the query so far, or None where it is unknown; for a server, this takes a message."""


class Planned(Protocol):
    """A query that was planned and has not run."""

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the result."""

    @property
    def is_free(self) -> bool:
        """Return whether the query is known to ask no model."""

    def run(self, watch: Watch) -> Run:
        """Start the query; each call runs it again.

        Raises:
            FlightLLMError: the query is out of date.
        """


class Backend(Protocol):
    """One session of a database. Safe to use from several threads.

    While a method waits, Ctrl-C stops the statement and is raised as `KeyboardInterrupt`.
    """

    def send(self, sql: str, parameters: pa.RecordBatch | None, watch: Watch) -> Planned | Change:
        """Plan a query, or run a change; `parameters` has one row.

        Raises:
            FlightLLMError: the statement is wrong, or a change fails.
        """

    def upload(self, name: str, rows: pa.RecordBatchReader) -> None:
        """Make a temporary table of the session, in place of one with this name.

        Raises:
            FlightLLMError: the table cannot be stored.
        """

    def interrupt(self) -> None:
        """Stop the running statements of the session. Do not wait for them."""

    def another(self) -> "Backend":
        """Open another session of the same user."""

    def close(self) -> None:
        """Close the session. Idempotent."""
