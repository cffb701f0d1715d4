"""ON CONFLICT: the rows of an INSERT are merged into the table by its key."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from datafusion.catalog import Table

from flightllm.catalog.entries import Entry
from flightllm.catalog.keys import keys_of
from flightllm.catalog.memory import memory_table
from flightllm.catalog.numbered import ROW
from flightllm.common.names import quoted
from flightllm.dml.selection import POSITION, Selection
from flightllm.errors import InvalidInputError, SqlError
from flightllm.sql.row_change import Action, Conflict, RowChange

PROPOSED = "search.public.proposed"
"""The query's name for the rows of the INSERT. The statement calls these rows `excluded`."""
ORDER = f"excluded.{quoted(ROW)}"
"""The column that holds the position of each of these rows in the INSERT."""


def conflict_change(change: RowChange, entry: Entry) -> RowChange:
    """Return an INSERT … ON CONFLICT as a change that merges the rows of `excluded`.

    Raises:
        InvalidInputError: the table has no key, or no key with the columns that ON CONFLICT names.
    """
    conflict = change.conflict or Conflict((), Action("nothing"))
    keys = _keys(conflict, entry)
    own, new = quoted(change.alias), "excluded"
    alike = (" AND ".join(f"{own}.{quoted(c)} = {new}.{quoted(c)}" for c in key) for key in keys)
    condition = " OR ".join(f"({text})" for text in alike)
    values = tuple((name, f"{new}.{quoted(name)}") for name in entry.schema.names)
    insert = Action("insert", "not_matched", "", values)
    found = [conflict.action] if conflict.action.kind == "update" else []
    return replace(
        change,
        source=f"{PROPOSED} AS excluded",
        condition=condition,
        actions=(*found, insert),
        merged=True,
    )


def _keys(conflict: Conflict, entry: Entry) -> Sequence[tuple[str, ...]]:
    keys = keys_of(entry)
    shown = ", ".join(f"({', '.join(key)})" for key in keys)
    if not keys:
        raise InvalidInputError(
            f"ON CONFLICT needs a key, and {entry.name.display!r} has none: declare PRIMARY KEY or UNIQUE in CREATE"
            " TABLE, or write MERGE INTO … USING … ON …"
        )
    if not conflict.columns:
        return keys
    for key in keys:
        if set(key) == set(conflict.columns):
            return [key]
    raise InvalidInputError(
        f"ON CONFLICT ({', '.join(conflict.columns)}) does not name a key of {entry.name.display!r};"
        f" its keys are {shown}"
    )


def ordered_rows(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Return rows with their position as the last column."""
    table = pa.Table.from_batches(batches, schema)
    return table.append_column(pa.field(ROW, pa.int64()), pa.array(np.arange(table.num_rows)))


def table_of(rows: pa.Table) -> Table:
    """Return rows as a table that DataFusion can read."""
    return memory_table(rows.to_batches(), rows.schema)


def without_doubles(table: pa.Table, chosen: Selection, conflict: Conflict, entry: Entry) -> pa.Table:
    """Return the rows to change and the rows to insert, with only the first inserted row of each key.

    A key that contains NULL equals no other key.

    For a table with the key `k`, where only `k = 1` exists:

    | row | position | excluded.k | kept |
    |---|---|---|---|
    | 0 | 7 | 1 | yes: DO UPDATE changes row 7 of the table |
    | 1 | NULL | 2 | yes: the first insert of key 2 |
    | 2 | NULL | 2 | no; with DO UPDATE an error |

    Raises:
        SqlError: DO UPDATE would have to change a row that the same INSERT adds.
    """
    there = table.num_rows - table[POSITION].null_count
    new = table.slice(there)
    new = new.sort_by(chosen.extras[-1])
    insert = chosen.actions[-1].values
    keys = _keys(conflict, entry)
    columns = [[new[insert[name]].to_pylist() for name in key] for key in keys]
    seen: list[set[tuple[str, ...]]] = [set() for _ in keys]
    keep = np.ones(new.num_rows, bool)
    for row, values in enumerate(_rows(columns, new.num_rows)):
        if any(value is not None and value in known for value, known in zip(values, seen, strict=True)):
            keep[row] = False
            if conflict.action.kind == "update":
                raise SqlError(
                    "ON CONFLICT DO UPDATE cannot change a row twice: two rows of the INSERT have the same key"
                    f" ({', '.join(keys[0])}); nothing was changed"
                )
            continue
        for value, known in zip(values, seen, strict=True):
            if value is not None:
                known.add(value)
    return pa.concat_tables([table.slice(0, there), new.filter(pa.array(keep))])


def _rows(columns: Sequence[Sequence[list[object]]], count: int) -> Iterator[list[tuple[str, ...] | None]]:
    """Yield the keys of each row; a key that contains NULL is None."""
    for row in range(count):
        keys = [[column[row] for column in key] for key in columns]
        yield [None if any(value is None for value in key) else tuple(map(repr, key)) for key in keys]
