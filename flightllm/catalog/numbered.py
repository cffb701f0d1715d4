"""A table for one query with a column of row numbers, by which the query finds rows in the table's files."""

from dataclasses import dataclass

import pyarrow as pa
from datafusion import SessionContext
from datafusion.catalog import Table

from flightllm.catalog.entries import Entry
from flightllm.catalog.memory import memory_table
from flightllm.common.names import quoted

ROW = " row"
"""The column of row numbers: from 0, in the order of the rows."""
_BELOW = " as stored"


@dataclass(frozen=True, slots=True)
class NumberedTable:
    """A table with the column `ROW`, which `*` does not include.

    Only a context that is not parallel numbers rows correctly; any context can read `stored` numbers. A table that is
    `due` gets stored numbers when the query runs. Until then, a context sees its columns but no rows.
    """

    schema: pa.Schema
    """The columns that `*` includes."""
    provider: Table
    """The rows. If they have no column `ROW`, the numbers are added in the order of the rows."""
    due: bool = False

    @property
    def stored(self) -> bool:
        """Return whether the rows already have their numbers."""
        return ROW in self.provider.schema.names

    def register(self, context: SessionContext, name: str) -> None:
        """Register the table as `catalog.schema.name`, and for Substrait plans also the rows below it."""
        catalog, schema, table = name.split(".")
        tables = context.catalog(catalog).schema(schema)
        if self.stored:
            tables.register_table(table, self.provider)
            return
        tables.register_table(f"{table}{_BELOW}", self.provider)
        columns = ", ".join(map(quoted, self.schema.names))
        number = f"CAST(row_number() OVER () AS BIGINT) - 1 AS {quoted(ROW)}"
        below = f"{catalog}.{schema}.{quoted(f'{table}{_BELOW}')}"
        rows = Table(context.sql(f"SELECT {number}, {columns} FROM {below}"))
        tables.register_table(table, memory_table([], rows.schema) if self.due else rows)


def numbered(entry: Entry) -> NumberedTable:
    """Return a table of the catalog with numbered rows."""
    return NumberedTable(entry.schema, entry.provider or memory_table([], entry.schema))
