"""One running result that several streams fetch at once: the stream that asks next gets the next batch."""

import threading
from collections.abc import Iterator

import pyarrow as pa

from flightllm.errors import CancelledError, NotFoundError
from flightllm.flight.backend import BackendQueryResult
from flightllm.flight.results import close_batches


class Parts:
    """A result in `count` parts. A client can fetch each part once; each batch belongs to exactly one part.

    The query runs once, as far as its parts are read. An error, or a client that leaves one part early, ends all parts.
    """

    def __init__(self, result: BackendQueryResult, count: int) -> None:
        self.result = result
        self._left = set(range(count))
        self._taking = threading.Lock()
        self._lock = threading.Lock()
        """Held while a batch is produced, which can take long; `take` does not wait for this lock."""
        self._ended: BaseException | None = None

    def take(self, index: int) -> "ResultPart":
        """Return a part; exactly one caller must pull it.

        Raises:
            NotFoundError: the part was taken before; its batches are no longer available.
        """
        with self._taking:
            if index not in self._left:
                raise NotFoundError(f"part {index} of the result was fetched before: run the query again")
            self._left.remove(index)
        return ResultPart(self)

    def next_batch(self) -> pa.RecordBatch:
        """Return the next batch of the result; the error that ended one part is raised in all parts."""
        with self._lock:
            if self._ended is not None:
                raise self._ended
            try:
                return next(self.result.batches)
            except BaseException as exc:
                self._ended = exc
                raise

    def stop(self) -> None:
        """End the query for all parts. Idempotent; waits for the batch being made."""
        self.result.query.cancel()
        with self._lock:
            self._ended = self._ended or CancelledError("the client of another part of the result left")
            close_batches(self.result.batches)


class ResultPart(Iterator[pa.RecordBatch]):
    """One part of a result; a query result with the record of the whole query."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._done = False
        self.schema: pa.Schema = parts.result.schema
        self.query = parts.result.query

    @property
    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return this part."""
        return self

    def answer_columns(self) -> tuple[int, ...] | None:
        """Return the columns that depend on AI calls, as in the whole result."""
        return self._parts.result.answer_columns()

    def __next__(self) -> pa.RecordBatch:
        """Return a batch that no other part gets."""
        try:
            return self._parts.next_batch()
        except StopIteration:
            self._done = True
            raise

    def close(self) -> None:
        """End the query, unless this part was read to its end."""
        if not self._done:
            self._parts.stop()
