"""Tables in memory, and the checks of uploads: size, validity, and columns that fit the table."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from datafusion.catalog import Table

from flightllm.common.arrow_types import plain_bytes, with_plain_types
from flightllm.common.limits import over_limit
from flightllm.common.times_of_day import in_unit_of_time
from flightllm.datafusion.contexts import scratch_context
from flightllm.errors import InvalidInputError, SqlError


def memory_table(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> Table:
    """Return a table over `batches` in one partition, so that rows keep their order and appear together."""
    context = scratch_context()
    empty = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    filled = [batch for batch in batches if batch.num_rows] or [empty]
    context.register_record_batches("t", [filled])
    return context.catalog().schema("public").table("t")


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return a table's schema for an upload's schema: see `with_plain_types` and `in_unit_of_time`.

    Times of the day have nanoseconds, as TIME has.

    Raises:
        UnsupportedError: a column's type cannot be stored; names the column.
        InvalidInputError: a column's type is invalid, or two columns have the same name.
    """
    twice = [name for name, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise InvalidInputError(f"two columns are named {twice[0]!r}: give every column its own name")
    return pa.schema([field.with_type(in_unit_of_time(field.type)) for field in with_plain_types(schema)])


def checked(batches: Iterable[pa.RecordBatch], schema: pa.Schema, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield the upload's batches with the columns of `schema`, each checked before DataFusion sees it.

    Raises:
        InvalidInputError: a batch is corrupt, lacks a column, or has a value that does not fit; names the column.
        LimitExceededError: the rows have more than `most_bytes` bytes.
    """
    total = 0
    for batch in batches:
        least = max(batch.num_rows, batch.nbytes)
        _check_size(total + least, most_bytes)
        try:
            batch.validate(full=True)
        except pa.ArrowInvalid as error:
            raise InvalidInputError(f"the uploaded data is corrupt: {error}") from error
        total += max(least, plain_bytes(batch))
        _check_size(total, most_bytes)
        yield pa.RecordBatch.from_arrays([_fitted(batch, field) for field in schema], schema=schema)


def _check_size(total: int, most_bytes: int) -> None:
    if total > most_bytes:
        raise over_limit("upload_bytes", most_bytes, f"the rows have {total:,} bytes", "store fewer at once")


def _fitted(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    column = batch.column(field.name)
    try:
        fitted = column if column.type == field.type else column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(
            f"column {field.name!r} of type {column.type} does not fit the table's {field.type}: {error}"
        ) from error
    if fitted.null_count and not field.nullable:
        raise InvalidInputError(f"column {field.name!r} must not be NULL, but {fitted.null_count} of its values are")
    return fitted


def with_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the names of a schema; the batch has the schema's types already.

    Raises:
        SqlError: a column that must not be NULL has NULL values.
    """
    for field, column in zip(schema, batch.columns, strict=True):
        if column.null_count and not field.nullable:
            raise SqlError(
                f"the column {field.name!r} is non-nullable, but {column.null_count} of its values are NULL: give each"
                " row a value, because the server numbers no rows"
            )
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def check_columns(uploaded: pa.Schema, table: pa.Schema) -> None:
    """Check that an upload has the columns of the table it is appended to; it can leave out nullable columns.

    Raises:
        InvalidInputError: a required column is missing, or a column is unknown; names it and the table's columns.
    """
    plain_schema(uploaded)
    known = ", ".join(table.names)
    for name in uploaded.names:
        if name not in table.names:
            raise InvalidInputError(f"the table has no column {name!r}; its columns are {known}")
    for field in table:
        if field.name not in uploaded.names and not field.nullable:
            raise InvalidInputError(
                f"the upload has no column {field.name!r}, which must not be NULL; the table's columns are {known}"
            )
