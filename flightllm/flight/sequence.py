"""One query for several rows of parameters: the results follow each other as one result."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as Names
from typing import Any

import pyarrow as pa

from flightllm.errors import CancelledError, FlightLLMError, InvalidInputError
from flightllm.flight.backend import BackendQueryResult
from flightllm.flight.results import close_batches


def table_changed() -> InvalidInputError:
    """Return the error for a query whose columns differ from those that were announced."""
    return InvalidInputError(
        "a table of the query has changed, and so have the columns of its result: run the query again"
    )


def _types_differ(first: pa.Schema, now: pa.Schema) -> InvalidInputError:
    """Return the error for union values that gave a column two types."""
    pairs = zip(first, now, strict=False)
    found = next(((one, other) for one, other in pairs if one.type != other.type), None)
    what = f": the column {found[0].name!r} is {found[0].type} first and {found[1].type} later" if found else ""
    return InvalidInputError(
        f"the parameter rows have values of several types, which change the types of the result's columns{what}; bind"
        " values of one type, or write CAST(? AS …)"
    )


class Sequence(Iterator[pa.RecordBatch]):
    """A query result that is its own iterator of batches and its own record.

    The first row of parameters is planned at once and gives schema and id; each other row is planned when its turn
    comes. There can be millions of rows, so they are read one by one. One thread pulls; any thread can call `cancel`.
    `names` are the column names that were promised before values were bound.
    """

    def __init__(
        self,
        execute: Callable[[pa.RecordBatch], BackendQueryResult],
        rows: Iterable[pa.RecordBatch],
        names: Names[str] = (),
    ) -> None:
        self._execute = execute
        self._rows = iter(rows)
        first = next(self._rows)
        self._plain = not any(map(pa.types.is_union, first.schema.types))
        self._current = execute(first)
        self._next = next(self._rows, None)
        self._cancelled = False
        self.schema: pa.Schema = self._current.schema
        self._names = names if len(names) == len(self.schema) else [""] * len(self.schema)
        self.query_id = self._current.query.query_id

    @property
    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return itself."""
        return self

    @property
    def query(self) -> "Sequence":
        """Return itself."""
        return self

    def __next__(self) -> pa.RecordBatch:
        """Return the next batch of the running query, or of the query that follows it."""
        while True:
            if self._cancelled:
                raise CancelledError("the query was cancelled")
            try:
                return next(self._current.batches)
            except StopIteration:
                if self._next is None:
                    raise
            self._current = self._execute(self._next)
            self._next = next(
                self._rows, None
            )  # read here, so that `progress` does not report "done" between two queries
            if not self._fits(self._current.schema):
                self.close()
                raise table_changed() if self._plain else _types_differ(self.schema, self._current.schema)

    def _fits(self, schema: pa.Schema) -> bool:
        """Return whether a schema matches the first one; a column's name can contain a value, which can differ."""
        names = zip(self.schema.names, schema.names, self._names, strict=False)
        return schema.types == self.schema.types and all(name != told or now == told for name, now, told in names)

    @property
    def user(self) -> str:
        """Return the name of the user who started the query."""
        return self._current.query.user

    @property
    def stopped(self) -> bool:
        """Return whether the query was cancelled."""
        return self._cancelled or self._current.query.stopped

    @property
    def reason(self) -> FlightLLMError | None:
        """Return the error that stopped the query, or None if the stop is not a failure."""
        return self._current.query.reason

    def cancel(self, reason: FlightLLMError | None = None) -> None:
        """Stop the running query and start no further query."""
        self._cancelled = True
        self._current.query.cancel(reason)

    def queued(self, seconds: float) -> None:
        """Record the waiting time for the running query."""
        self._current.query.queued(seconds)

    def answer_columns(self) -> None:
        """Return None: several queries make the rows."""

    @property
    def has_calls(self) -> bool:
        """Return whether the running query has AI calls so far."""
        return self._current.query.has_calls

    def progress(self) -> Mapping[str, Any]:
        """Return the progress of the running query; between two queries the status is running too."""
        shown, more = self._current.query.progress(), self._next is not None
        return {**shown, "status": "running"} if more and shown["status"] == "done" else shown

    def close(self) -> None:
        """Close the running query."""
        self._next = None
        close_batches(self._current.batches)
