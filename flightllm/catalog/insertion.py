"""The rows that an INSERT adds: DataFusion casts them to the table's columns and fills in other columns' defaults."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from datafusion import DataFrame, SessionContext
from datafusion.catalog import Catalog, Schema, Table

from flightllm.catalog.entries import Entry
from flightllm.catalog.memory import memory_table
from flightllm.common.names import quoted
from flightllm.common.row_groups import gathered
from flightllm.datafusion.contexts import ROWS_ONLY, scratch_context
from flightllm.datafusion.errors import mapped_error

_PLACE = "inserted"
"""The name of the catalog, the schema and the table that replace the INSERT's target in the plan."""


class Insertion:
    """Turns rows for some columns, in any order and of any type, into rows for all columns of a table."""

    def __init__(self, entry: Entry, columns: Sequence[str], schema: pa.Schema) -> None:
        """Check that rows of `schema` can be inserted.

        Raises:
            SqlError: rows of `schema` cannot go into these columns.
        """
        self._entry = entry
        self._columns = columns
        self._schema = schema
        self._planned([])

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows with all columns of the table, in groups.

        Raises:
            SqlError: a value cannot be cast.
        """
        for group in gathered(batches):
            try:
                yield from self._planned(group).collect()
            except Exception as error:
                raise mapped_error(error) from error

    def _planned(self, batches: Sequence[pa.RecordBatch]) -> DataFrame:
        context, given, tables = scratch_context(parallel=False), Catalog.memory_catalog(), Schema.memory_schema()
        tables.register_table("rows", memory_table(batches, self._schema))
        given.register_schema("given", tables)
        context.register_catalog_provider("given", given)
        return planned_rows(context, self._entry, self._columns, "SELECT * FROM given.given.rows")


def planned_rows(context: SessionContext, entry: Entry, columns: Sequence[str], query: str) -> DataFrame:
    """Plan the rows of `query` for a table's `columns` (empty: all); the planned rows have all columns of the table.

    Raises:
        SqlError: the query is wrong, or its rows do not fit the columns.
    """
    catalog, schema = Catalog.memory_catalog(), Schema.memory_schema()
    schema.register_table(_PLACE, _empty(entry))
    catalog.register_schema(_PLACE, schema)
    context.register_catalog_provider(_PLACE, catalog)
    names = f" ({', '.join(quoted(column) for column in columns)})" if columns else ""
    text = f"INSERT INTO {_PLACE}.{_PLACE}.{_PLACE}{names} {query}"
    try:
        (rows,) = context.sql_with_options(text, ROWS_ONLY).logical_plan().inputs()
        return context.create_dataframe_from_logical_plan(rows)
    except Exception as error:
        raise mapped_error(error, text) from error


def _empty(entry: Entry) -> Table:
    """Return a table without rows that has the columns and defaults of an entry."""
    if entry.rows is None or not entry.rows.definition:
        return memory_table([], entry.schema)
    context = scratch_context()
    context.sql(f"CREATE TABLE t {entry.rows.definition}")
    return context.catalog().schema("public").table("t")
