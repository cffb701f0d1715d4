"""Rewrites the files of a table that contain changed rows; the other files stay as they are."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flightllm.catalog.entries import Entry
from flightllm.catalog.managed import rows_of
from flightllm.catalog.store import TableStore
from flightllm.catalog.stored_json import stored_json
from flightllm.dml.returning import MERGE_ACTION
from flightllm.dml.selection import ACTION, POSITION, Done
from flightllm.errors import SqlError
from flightllm.storage.rows import StoredFile, read_rows, write_rows

Numbers = npt.NDArray[np.int64]
_INSERT_ROWS = 8_192


@dataclass(frozen=True, slots=True)
class Changes:
    """The rows to change, sorted by their number in the table, each at most once. The rows to insert follow them."""

    table: pa.Table
    actions: Sequence[Done]
    extras: Sequence[str] = ()

    @property
    def positions(self) -> Numbers:
        """Return the numbers of the rows to change, in ascending order."""
        column = self.table[POSITION]
        there = self.table.num_rows - column.null_count
        numbers: Numbers = column.slice(0, there).to_numpy().astype(np.int64, copy=False)
        return numbers

    def returned_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of changed rows as RETURNING sees them, for a table with this schema."""
        extras = [self.table.schema.field(name) for name in self.extras]
        return pa.schema(
            [*(f.with_nullable(nullable=True) for f in schema), *extras, pa.field(MERGE_ACTION, pa.string())]
        )


@dataclass(slots=True)
class Rewriting:
    """Writes the files of one change.

    `changed` counts the changed rows. `returned` holds them if `returning` is set.
    """

    store: TableStore
    entry: Entry
    changes: Changes
    returning: bool
    changed: int = 0
    written: list[StoredFile] = field(default_factory=list)
    returned: list[pa.RecordBatch] = field(default_factory=list)

    def files(self) -> list[StoredFile]:
        """Return the table's files after the change; those in `written` are new.

        Raises:
            SqlError: a new value is NULL in a column that is NOT NULL.
            LimitExceededError: the disk is full.
        """
        old, positions = rows_of(self.entry), self.changes.positions
        kept, first = list[StoredFile](), 0
        for index, file in enumerate(old.files):
            low, high = np.searchsorted(positions, [first, first + file.rows])
            if low == high:
                kept.append(file)
            else:
                self.store.compare(self.entry.name, [file])
                batches = read_rows([old.path(index)], self.entry.schema)
                kept += self._written(self._rewritten(batches, first, positions))
            first += file.rows
        return [*kept, *self._written(self._inserted(len(positions)))]

    def _written(self, batches: Iterator[pa.RecordBatch]) -> list[StoredFile]:
        schema = self.entry.schema
        new = write_rows(self.store.folder, schema, stored_json(batches, schema))
        if new is None:
            return []
        self.written.append(new)
        return [new]

    def _rewritten(self, batches: Iterator[pa.RecordBatch], first: int, positions: Numbers) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file as they are after the change. The file's first row has the number `first`."""
        for batch in batches:
            low, high = (int(n) for n in np.searchsorted(positions, [first, first + batch.num_rows]))
            if low == high:
                yield batch
            else:
                chosen = self.changes.table.slice(low, high - low).combine_chunks()
                yield self._changed(batch, positions[low:high] - first, chosen)
            first += batch.num_rows

    def _changed(self, batch: pa.RecordBatch, rows: Numbers, chosen: pa.Table) -> pa.RecordBatch:
        """Return a batch with new values and without the deleted rows.

        `rows` are indices into `batch`, and `chosen` has one row for each of them. For the actions
        `[update n, delete]`:

        | batch row | n before | rows | chosen action | chosen value | n after |
        |---|---|---|---|---|---|
        | 0 | 5 | | | | 5 |
        | 1 | 6 | 1 | 1 (update) | 60 | 60 |
        | 2 | 7 | 2 | 2 (delete) | | removed |
        """
        actions = chosen[ACTION].to_numpy() - 1
        self.changed += len(rows)
        columns = []
        for column in self.entry.schema:
            values = batch.column(column.name)
            for number, action in enumerate(self.changes.actions):
                mine = np.flatnonzero(actions == number)
                if column.name in action.kept:
                    mine = mine[chosen[action.kept[column.name]].take(mine).is_null().to_numpy()]
                if action.kind == "update" and column.name in action.values and len(mine):
                    values = _put(values, rows[mine], chosen[action.values[column.name]].take(mine), column)
            columns.append(values)
        changed = pa.RecordBatch.from_arrays(columns, schema=self.entry.schema)
        if self.returning:
            kinds = [self.changes.actions[n].kind for n in actions]
            self._return(changed.take(pa.array(rows)), chosen, kinds)
        deleting = [number for number, action in enumerate(self.changes.actions) if action.kind == "delete"]
        gone = rows[np.isin(actions, deleting)]
        keep = np.ones(batch.num_rows, bool)
        keep[gone] = False
        return changed.filter(pa.array(keep)) if len(gone) else changed

    def _inserted(self, first: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows to insert, in batches. `first` is the index of the first row to insert."""
        rest = self.changes.table.slice(first)
        for start in range(0, rest.num_rows, _INSERT_ROWS):
            chosen = rest.slice(start, _INSERT_ROWS).combine_chunks()
            actions = chosen[ACTION].to_numpy() - 1
            for number, action in enumerate(self.changes.actions):
                mine = chosen.take(pa.array(np.flatnonzero(actions == number)))
                if mine.num_rows:
                    new = _new_rows(mine, action.values, self.entry.schema)
                    self.changed += new.num_rows
                    if self.returning:
                        self._return(new, mine, ["insert"] * new.num_rows)
                    yield new

    def _return(self, rows: pa.RecordBatch, chosen: pa.Table, kinds: Sequence[str]) -> None:
        extras = [_array(chosen[name]) for name in self.changes.extras]
        columns = [*rows.columns, *extras, pa.array([kind.upper() for kind in kinds], pa.string())]
        schema = self.changes.returned_schema(self.entry.schema)
        self.returned.append(pa.RecordBatch.from_arrays(columns, schema=schema))


def _put(values: pa.Array, rows: Numbers, new: pa.ChunkedArray, column: pa.Field) -> pa.Array:
    """Return `values` with the values `new` at the indices `rows`.

    `values` are `[5, 6, 7]`, `rows` `[1]`, and `new` `[60]`. The index is into `[5, 6, 7, 60]`:

    | row | index | result |
    |---|---|---|
    | 0 | 0 | 5 |
    | 1 | 3 | 60 |
    | 2 | 2 | 7 |

    Raises:
        SqlError: a new value is NULL in a column that is NOT NULL.
    """
    if new.null_count and not column.nullable:
        raise _not_null(column)
    indices = np.arange(len(values))
    indices[rows] = len(values) + np.arange(len(rows))
    return pa.concat_arrays([values, _array(new)]).take(pa.array(indices))


def _new_rows(chosen: pa.Table, values: Mapping[str, str], schema: pa.Schema) -> pa.RecordBatch:
    columns = [_array(chosen[values[column.name]]) for column in schema]
    for column, array in zip(schema, columns, strict=True):
        if array.null_count and not column.nullable:
            raise _not_null(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        return pa.concat_arrays(combined.chunks) if combined.num_chunks else pa.array([], column.type)
    return combined


def _not_null(column: pa.Field) -> SqlError:
    return SqlError(f"the column {column.name!r} is non-nullable, but a new value of it is NULL")
