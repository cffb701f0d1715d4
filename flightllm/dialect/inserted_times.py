"""Read the texts of times that Snowflake's INSERT gives to columns of days and times."""

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flightllm.common.names import TableName
from flightllm.dialect.source import NameContext
from flightllm.errors import UnsupportedError
from flightllm.functions.automatic_times import offset_of

if TYPE_CHECKING:
    from sqlglot import exp


def cast_inserted_times(tree: "exp.Expr", place: NameContext) -> None:
    """Rewrite `INSERT INTO t VALUES ('01/31/2024')` as `… ('01/31/2024'::DATE)` for a column of days.

    Raises:
        UnsupportedError: a text has an offset from UTC that its column cannot keep.
    """
    from sqlglot import exp

    if not isinstance(tree, exp.Insert) or not isinstance(tree.expression, exp.Values):
        return
    schema = tree.this if isinstance(tree.this, exp.Schema) else None
    table = tree.this if schema is None else schema.this
    name = TableName(table.db, table.name) if table.db else place.found(table.name)
    types = {column.lower(): type_ for column, type_ in place.columns_of(name).items()}
    columns = list(types) if schema is None else [one.name.lower() for one in schema.expressions]
    for row in tree.expression.expressions:
        for column, value in zip(columns, row.expressions, strict=False):
            if isinstance(value, exp.Literal) and value.is_string and (to := _type(types.get(column), value.name)):
                value.replace(exp.cast(value.copy(), to))


def _type(column: Any, text: str) -> str:
    """Return the type to which a text is cast for a column, or an empty text."""
    if column is None or not (pa.types.is_timestamp(column) or pa.types.is_date(column)):
        return ""
    if pa.types.is_date(column):
        return "DATE"
    if column.tz is None:
        return "TIMESTAMP"
    offset = offset_of(text)
    if offset not in {None, "+00:00"}:
        raise UnsupportedError(
            f"a column keeps no offset such as {offset} for each row: write '{text}'::TIMESTAMP_LTZ, the instant in UTC"
        )
    return "TIMESTAMPTZ"
