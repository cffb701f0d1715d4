"""What clients upload: checked in full before anything reads it, and bounded."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyarrow import flight

from flightllm.errors import InvalidInputError
from flightllm.limits import Deadline, over_limit

_NO_DEADLINE = Deadline()


class Upload:
    """The batches of one DoPut, as plain types: no views, large strings, dictionaries.

    Iterating raises `LimitExceededError` beyond `limit` bytes, `InvalidInputError` for malformed data, and
    `StatementTimeoutError` for a batch that comes after `deadline`.
    """

    def __init__(
        self, reader: Any, limit: int, deadline: Deadline = _NO_DEADLINE, count: Callable[[int], None] = lambda _: None
    ) -> None:
        self._reader = reader
        self._limit = limit
        self._deadline = deadline
        self._count = count
        with _malformed():
            given: pa.Schema = reader.schema
            for field in given:
                _refuse_run_ends(field.type, field.name)
            self.schema = pa.schema([_plain_field(field) for field in given])

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        received = 0
        chunks = iter(self._reader)
        while (chunk := _next(chunks)) is not None:
            batch = chunk.data
            if batch is None:  # metadata alone
                continue
            size = batch.get_total_buffer_size()
            self._count(size)
            received += size
            if received > self._limit:
                raise over_limit("upload_bytes", self._limit, f"the upload has {received:,} bytes", "send it in parts")
            if self._deadline.over:
                raise self._deadline.error()
            yield _checked(batch, self.schema)

    def read_all(self) -> pa.Table:
        """Return everything sent."""
        return pa.Table.from_batches(list(self), schema=self.schema)


def _next(chunks: Iterator[Any]) -> Any:
    """Return what was sent next, None at the end."""
    with _malformed():
        return next(chunks, None)


def _checked(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return `batch` under `schema`, after a full check: DataFusion trusts offsets and indices blindly."""
    with _malformed():
        batch.validate(full=True)
        return batch if batch.schema.equals(schema) else batch.cast(schema)


@contextmanager
def _malformed() -> Iterator[None]:
    """Say of what Arrow cannot read that it is the client's fault. A lost or cancelled call is none."""
    try:
        yield
    except (flight.FlightError, pa.ArrowCancelled):
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as exc:
        raise InvalidInputError(f"the uploaded data is not valid Arrow: {exc}") from exc


def _refuse_run_ends(kind: pa.DataType, column: str) -> None:
    """Raise `InvalidInputError` for run-end encoding at any depth: the Arrow inside DataFusion does not check it."""
    if pa.types.is_run_end_encoded(kind):
        raise InvalidInputError(f"column {column!r} is run-end encoded, which is not accepted; decode it first")
    if isinstance(kind, pa.BaseExtensionType):
        _refuse_run_ends(kind.storage_type, column)
    if pa.types.is_dictionary(kind):
        _refuse_run_ends(kind.value_type, column)
    for place in range(kind.num_fields):
        _refuse_run_ends(kind.field(place).type, column)


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(_plain(field.type, field.name)).remove_metadata()


def _plain(kind: pa.DataType, column: str) -> pa.DataType:
    """Return the type a column is kept as.

    Raises:
        InvalidInputError: a list view, which pyarrow cannot check.
    """
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type, column)
    if pa.types.is_nested(kind):
        return _plain_nested(kind, column)
    return kind


def _plain_nested(kind: pa.DataType, column: str) -> pa.DataType:
    types = pa.types
    if types.is_list_view(kind) or types.is_large_list_view(kind):  # pyarrow cannot check their offsets
        raise InvalidInputError(f"column {column!r} is a list view, which is not accepted; send a list")
    if types.is_struct(kind):
        return pa.struct([_plain_field(field) for field in kind])
    if types.is_fixed_size_list(kind):
        return pa.list_(_plain_field(kind.value_field), kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    if types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field), keys_sorted=kind.keys_sorted)
    return kind
