"""A table of a query's own whose rows have numbers, by which they are found again in its files."""

from dataclasses import dataclass

import pyarrow as pa
from datafusion import SessionContext
from datafusion.catalog import Table

from flightllm.catalog.entries import Entry
from flightllm.catalog.memory import memory_table
from flightllm.common.names import quoted

ROW = " row"
"""The column of numbers: from 0, in the order of the rows."""
_BELOW = " as stored"


@dataclass(frozen=True, slots=True)
class NumberedTable:
    """A table with the column `ROW`, which no star stands for.

    Only a context that is not parallel numbers the rows right; any context reads numbers that are `stored`. Those of a
    table that is `due` are stored when the query runs. Until then a context knows its columns, and sees no rows.
    """

    schema: pa.Schema
    """The columns that a star stands for."""
    provider: Table
    """The rows; where they have no column `ROW`, it is added in their order."""
    due: bool = False

    @property
    def stored(self) -> bool:
        """Tell whether the rows have their numbers already."""
        return ROW in self.provider.schema.names

    def register(self, context: SessionContext, name: str) -> None:
        """Make the table known to a context, and for Substrait plans the rows below it, as `catalog.schema.name`."""
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
    """Return a table of the catalog with its rows numbered."""
    return NumberedTable(entry.schema, entry.provider or memory_table([], entry.schema))
