"""Summarize a table or query, as in DuckDB: one row per column, with its type, range and values."""

from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa

from flightllm.common.names import quoted
from flightllm.common.type_names import stored_type, type_name
from flightllm.datafusion.run import Batches
from flightllm.errors import UnsupportedError
from flightllm.execution.query import Query
from flightllm.observe.query_record import QueryRecord
from flightllm.sql.literals import arrow_type

_TEXTS = ("min", "max", "avg", "std", "q25", "q50", "q75")
_PERCENT = pa.decimal128(9, 2)
SCHEMA = pa.schema(
    [
        ("column_name", pa.string()),
        ("column_type", pa.string()),
        ("min", pa.string()),
        ("max", pa.string()),
        ("approx_unique", pa.int64()),
        *((name, pa.string()) for name in _TEXTS[2:]),
        ("count", pa.int64()),
        ("null_percentage", _PERCENT),
    ]
)
_DAYS = 32
"""The bit width of types, such as date, that SQL casts to INT but not directly to BIGINT."""
_MOST_COLUMNS = 100
"""The most columns. DataFusion's time grows with the square of the number of aggregates; this many take seconds."""
_NONE = "CAST(NULL AS VARCHAR)"
_OF_EACH = len(SCHEMA) - 3
"""Values per column that the query of `summary` returns: all but the name, the type and the count of rows."""


class SummarizeQuery:
    """SUMMARIZE: the one row of a query of aggregates, turned into a row per column."""

    schema = SCHEMA

    def __init__(self, query: Query, columns: pa.Schema) -> None:
        """Take the planned query that `summary` wrote for these columns."""
        self._query = query
        self._columns = columns

    def run(self, record: QueryRecord) -> Batches:
        """Yield one row per column."""
        with closing(self._query.run(record)) as batches:
            table = pa.Table.from_batches(batches, self._query.schema)
        count, *values = (column[0].as_py() for column in table.columns)
        rows = []
        for place, field in enumerate(self._columns):
            given = values[place * _OF_EACH : (place + 1) * _OF_EACH]
            rows.append((field.name, type_name(field.type), *given[:-1], count, given[-1]))
        columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(SCHEMA)]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

    def explain(self) -> list[tuple[str, str]]:
        """Return the plan of the aggregates."""
        return self._query.explain()


def summary(query: str, columns: pa.Schema) -> str:
    """Return a query for one row: another query's row count, and nine aggregates of each of its columns.

    Raises:
        UnsupportedError: there are too many columns.
    """
    if len(columns) > _MOST_COLUMNS:
        few = ", ".join(map(quoted, columns.names[:2]))
        raise UnsupportedError(
            f"SUMMARIZE takes at most {_MOST_COLUMNS} columns, but there are {len(columns)}: name some of them,"
            f" as in SUMMARIZE SELECT {few} FROM …"
        )
    names = [quoted(f"column {place}") for place in range(1, len(columns) + 1)]
    values = (
        value for name, field in zip(names, columns, strict=True) for value in _values(name, stored_type(field.type))
    )
    items = ["count(*)", *values]
    listed = ", ".join(f"{item} AS {quoted(f'value {place}')}" for place, item in enumerate(items))
    return f"SELECT {listed} FROM (\n{query}\n) AS summarized({', '.join(names)})"  # the query can end in a comment


def _values(name: str, kind: pa.DataType) -> Iterator[str]:
    """Yield the aggregates of a column, in the order of `SCHEMA`."""
    types = pa.types
    moment = types.is_date(kind) or types.is_time(kind) or types.is_timestamp(kind)
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    for function in ("min", "max"):
        yield f"CAST({function}({name}) AS VARCHAR)" if _has_text(kind) else _NONE
    yield _distinct(name, kind)
    yield f"CAST(avg(CAST({name} AS DOUBLE)) AS VARCHAR)" if number else _NONE
    yield f"CAST(stddev(CAST({name} AS DOUBLE)) AS VARCHAR)" if number else _NONE
    for part in (0.25, 0.5, 0.75):
        yield _quantile(name, kind, part) if number or moment else _NONE
    yield f"CAST(100.0 * count(*) FILTER (WHERE {name} IS NULL) / nullif(count(*), 0) AS DECIMAL(9, 2))"


def _has_text(kind: pa.DataType) -> bool:
    """Return whether DataFusion can compare values of a type and cast them to text."""
    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind):
        return not types.is_nested(kind.value_type) and _has_text(kind.value_type)
    return not types.is_nested(kind) and "binary" not in str(kind)


def _quantile(name: str, kind: pa.DataType, part: float) -> str:
    """Return an expression for a quantile in the type of its column; DataFusion computes it from DOUBLE values.

    A DOUBLE of a large number is inexact, so the quantile is clamped between the minimum and the maximum.
    """
    if pa.types.is_floating(kind):
        return f"CAST(approx_percentile_cont({name}, {part}) AS VARCHAR)"
    found = f"approx_percentile_cont(CAST({_number(name, kind)} AS DOUBLE), {part})"
    if pa.types.is_decimal(kind):
        wide = arrow_type(pa.decimal256(76, kind.scale))
    else:
        found, wide = f"round({found})", arrow_type(pa.decimal128(38, 0))
    least, greatest = (_number(f"{function}({name})", kind) for function in ("min", "max"))
    values = (f"arrow_cast({value}, {wide})" for value in (found, least, greatest))
    found = "least(greatest({}, {}), {})".format(*values)
    if not pa.types.is_decimal(kind):
        found = f"arrow_cast({found}, {arrow_type(_counted(kind))})"
    return f"CAST(arrow_cast({found}, {arrow_type(kind)}) AS VARCHAR)"


def _number(value: str, kind: pa.DataType) -> str:
    """Return an expression for a value as a number: a date as its days, a time or timestamp as its units."""
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return value
    return f"CAST(CAST({value} AS INT) AS BIGINT)" if kind.bit_width == _DAYS else f"CAST({value} AS BIGINT)"


def _counted(kind: pa.DataType) -> pa.DataType:
    """Return the integer type that represents the values of a type of integers, dates or times."""
    if pa.types.is_integer(kind):
        return kind
    return pa.int32() if kind.bit_width == _DAYS else pa.int64()


def _distinct(name: str, kind: pa.DataType) -> str:
    """Return an estimate of a column's distinct values; types without an estimate in DataFusion are cast to text.

    A column can be stored as a dictionary of values of its type, which must be unpacked.
    """
    types = pa.types
    if types.is_nested(kind) or types.is_null(kind) or "binary" in str(kind):
        return f"count(DISTINCT {name})"
    plain = types.is_integer(kind) or types.is_string(kind)
    counted = f"arrow_cast({name}, {arrow_type(kind)})" if plain else f"CAST({name} AS VARCHAR)"
    return f"CAST(approx_distinct({counted}) AS BIGINT)"
