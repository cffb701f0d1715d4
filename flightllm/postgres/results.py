"""The result of a statement: rows that are still to come, and the tag at its end."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from flightllm.flight.results import close_batches
from flightllm.postgres.failures import WireError
from flightllm.postgres.types import oid_of


@dataclass(slots=True)
class Result:
    """Rows, or no rows if `schema` is None; `tag` gets the number of rows. One thread at a time reads it."""

    schema: pa.Schema | None
    batches: Iterator[Any]
    tag: Callable[[int], str]
    affected: int = 0
    """The rows that a change without RETURNING affected."""
    rows: int = 0
    """The rows read so far."""
    is_stopped: Callable[[], bool] = field(default=lambda: False)
    """Returns whether the query was stopped, for example because its client takes no rows."""
    give_up: Callable[[], None] = field(default=lambda: None)
    """Ends a query of which no row was asked for."""
    warnings: Callable[[], Sequence[str]] = field(default=tuple)
    """Returns what the result lacks, once all rows are read; each is a notice."""
    _begun: bool = False
    _held: list[pa.RecordBatch] = field(default_factory=list)

    def read(self, most: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield batches with at most `most` rows together; 0 means all."""
        left = most
        while not most or left:
            batch = self._next()
            if batch is None:
                return
            if most and batch.num_rows > left:
                self._held.append(batch.slice(left))
                batch = batch.slice(0, left)
            left -= batch.num_rows
            self.rows += batch.num_rows
            yield batch

    @property
    def is_over(self) -> bool:
        """Return whether no rows are left; looks for the next row."""
        batch = self._next()
        if batch is not None:
            self._held.append(batch)
        return batch is None

    def _next(self) -> pa.RecordBatch | None:
        while True:
            if self._held:
                return self._held.pop()
            self._begun = True
            found = next(self.batches, None)
            if found is None:
                return None
            pieces = found.to_batches() if isinstance(found, pa.Table) else [found]
            self._held = [piece for piece in reversed(pieces) if piece.num_rows]

    def close(self) -> None:
        """Stop the query, if it still runs. Idempotent."""
        self._held = []
        if self._begun:
            close_batches(self.batches)
        else:
            self._begun = True
            self.give_up()

    @property
    def final_tag(self) -> str:
        """Return the tag after all rows."""
        return self.tag(self.affected if self.schema is None else self.rows)


def done(tag: str) -> Result:
    """Return the result of a statement that has run and has no rows."""
    return Result(None, iter(()), lambda _: tag)


def table_result(table: pa.Table, tag: Callable[[int], str]) -> Result:
    """Return a result whose rows are in memory."""
    return Result(table.schema, iter(table.to_batches()), tag)


def texts_result(columns: Iterable[tuple[str, list[str]]], tag: str) -> Result:
    """Return a result of texts by column."""
    return table_result(pa.table({name: pa.array(values, pa.string()) for name, values in columns}), lambda _: tag)


def check_promise(found: pa.Schema, promised: pa.Schema) -> None:
    """Check that a result has the columns that a client was told when it prepared the statement.

    Raises:
        WireError: a column has another name, or the number of columns differs.
    """
    if found.names != promised.names:
        raise _changed()


def as_promised(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch in the types that a client was told before it bound its values.

    Raises:
        WireError: the values do not fit.
    """
    if batch.schema.types == schema.types:
        return batch
    columns = []
    for column, promised in zip(batch.columns, schema, strict=True):
        if oid_of(column.type) == oid_of(promised.type):
            columns.append(column)
            continue
        try:
            columns.append(column.cast(promised.type))
        except pa.ArrowException as error:
            raise _changed() from error
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _changed() -> WireError:
    return WireError(
        "0A000",
        "cached plan must not change result type",
        hint="prepare the statement again",
        routine="RevalidateCachedQuery",  # by it, JDBC and asyncpg know that preparing again helps
    )
