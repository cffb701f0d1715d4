"""Uploads of clients: limited in size, and validated in full before other code reads them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyarrow import flight

from flightllm.common.arrow_types import elements, plain_bytes, with_plain_types, without_view_dictionaries
from flightllm.common.limits import Deadline, over_limit
from flightllm.errors import InvalidInputError

_NO_DEADLINE = Deadline()


class Upload:
    """The batches of one DoPut, as plain types. Unions stay, because some clients send parameters as unions.

    `declared` is the schema that was sent, with extension types and metadata. The limit counts the bytes of the batches
    as plain types, at least a byte for each value. Iterating raises `LimitExceededError` beyond `limit` bytes,
    `InvalidInputError` for malformed data, and `StatementTimeoutError` for a batch after `deadline`.
    """

    def __init__(
        self, reader: Any, limit: int, deadline: Deadline = _NO_DEADLINE, count: Callable[[int], None] = lambda _: None
    ) -> None:
        self._reader = reader
        self._limit = limit
        self._deadline = deadline
        self._count = count
        with _malformed():
            self.declared: pa.Schema = reader.schema
            self.schema = with_plain_types(reader.schema, unions=True)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        received = 0
        chunks = iter(self._reader)
        while (chunk := _next(chunks)) is not None:
            batch = chunk.data
            if batch is None:  # only metadata
                continue
            size = batch.get_total_buffer_size()
            self._count(size)
            with _malformed():
                batch.validate()  # lengths can have any value, also below zero
            least = max(size, batch.num_rows, sum(map(elements, batch.columns)))  # checked before the costly validation
            self._check(received + least)
            if self._deadline.over:
                raise self._deadline.error()
            with _malformed():
                batch.validate(full=True)
            received += max(least, plain_bytes(batch))
            self._check(received)
            yield _fitted(batch, self.schema)

    def _check(self, received: int) -> None:
        if received > self._limit:
            raise over_limit("upload_bytes", self._limit, f"the upload has {received:,} bytes", "send it in parts")

    def read_all(self) -> pa.Table:
        """Return all uploaded rows."""
        return pa.Table.from_batches(list(self), schema=self.schema)


def _next(chunks: Iterator[Any]) -> Any:
    """Return the next chunk, or None at the end."""
    with _malformed():
        return next(chunks, None)


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    with _malformed():
        return batch if batch.schema.equals(schema) else without_view_dictionaries(batch).cast(schema)


@contextmanager
def _malformed() -> Iterator[None]:
    """Raise `InvalidInputError` for data that Arrow cannot read; errors of a lost or cancelled call pass unchanged."""
    try:
        yield
    except (flight.FlightError, pa.ArrowCancelled):
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as exc:
        raise InvalidInputError(f"the uploaded data is not valid Arrow: {exc}") from exc
