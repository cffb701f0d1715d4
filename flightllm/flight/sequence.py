"""One query for several rows of parameters: the results one after the other, as if they were one."""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Rows
from typing import Any

import pyarrow as pa

from flightllm.errors import CancelledError, FlightLLMError
from flightllm.flight.backend import QueryResult
from flightllm.flight.results import close_batches


class Sequence(Iterator[pa.RecordBatch]):
    """A query result, its own batches and its own record.

    The first row of parameters is planned at once and gives schema and id; the others are when their turn comes.
    One thread pulls; `cancel` may come from any.
    """

    def __init__(self, execute: Callable[[pa.RecordBatch], QueryResult], rows: Rows[pa.RecordBatch]) -> None:
        self._execute = execute
        self._waiting = list(rows[1:])
        self._current = execute(rows[0])
        self._cancelled = False
        self.schema: pa.Schema = self._current.schema
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
        """Return the next batch of the running query, or of the next one."""
        while True:
            if self._cancelled:
                raise CancelledError("the query was cancelled")
            try:
                return next(self._current.batches)
            except StopIteration:
                if not self._waiting:
                    raise
            self._current = self._execute(self._waiting[0])
            del self._waiting[:1]  # only now: between two queries it is not done

    @property
    def user(self) -> str:
        """Return who started the query."""
        return self._current.query.user

    @property
    def stopped(self) -> bool:
        """Tell whether it was cancelled."""
        return self._cancelled or self._current.query.stopped

    @property
    def reason(self) -> FlightLLMError | None:
        """Return why it was stopped, where that makes it a failure."""
        return self._current.query.reason

    def cancel(self, reason: FlightLLMError | None = None) -> None:
        """Stop the running query and start no other."""
        self._cancelled = True
        self._current.query.cancel(reason)

    def queued(self, seconds: float) -> None:
        """Note it for the query that runs."""
        self._current.query.queued(seconds)

    def progress(self) -> Mapping[str, Any]:
        """Return how far the running query is; between two queries it is running too."""
        shown, waiting = self._current.query.progress(), bool(self._waiting)
        return {**shown, "status": "running"} if waiting and shown["status"] == "done" else shown

    def close(self) -> None:
        """Close the running query."""
        self._waiting.clear()
        close_batches(self._current.batches)
