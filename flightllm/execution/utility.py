"""Queries that the server answers itself: EXPLAIN, SHOW, DESCRIBE, and a query without a row of parameters."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
from datafusion import SessionContext

from flightllm.datafusion.run import Batches
from flightllm.execution.cancel_token import stopped_by
from flightllm.execution.explain import JSON_SCHEMA, TEXT_SCHEMA, ShownQuery, explain
from flightllm.execution.query import Query
from flightllm.observe.query_record import QueryRecord
from flightllm.sql.keys import TableKeys
from flightllm.sql.statement import Statement


class ExplainQuery:
    """EXPLAIN of a query or change."""

    def __init__(self, query: ShownQuery, statement: Statement, lines: Sequence[tuple[str, str]] = ()) -> None:
        """Explain a query; `lines` are the titles and texts of the first rows."""
        self._query = query
        self._lines = lines
        self._analyze = statement.analyze
        self._json = statement.format == "json"
        self.schema = JSON_SCHEMA if self._json else TEXT_SCHEMA

    def run(self, record: QueryRecord) -> Batches:
        """Yield one row per title and text, or one row with a JSON document."""
        with stopped_by(record.cancelled):
            told = explain(self._query, record, analyze=self._analyze, as_json=self._json, lines=self._lines)
        yield told

    def explain(self) -> list[tuple[str, str]]:
        """Return the plan being explained."""
        return self._query.explain()


class ShowQuery:
    """SHOW of settings."""

    schema = pa.schema([pa.field("name", pa.string()), pa.field("value", pa.string())])

    def __init__(self, settings: list[tuple[str, str]]) -> None:
        self._settings = settings

    def run(self, record: QueryRecord) -> Batches:
        """Yield one row per setting."""
        del record
        yield _texts(self._settings, self.schema)

    def explain(self) -> list[tuple[str, str]]:
        """Return the settings."""
        return self._settings


class DescribedQuery:
    """DESCRIBE of a query: DataFusion's description of the columns, under the names that users see."""

    schema = pa.schema([(name, pa.string()) for name in ("column_name", "data_type", "is_nullable")])

    def __init__(self, columns: pa.Schema, names: Sequence[str]) -> None:
        """Describe `columns`, DataFusion's own schema of the planned query; `names` are the shown names in order."""
        self._columns = columns
        self._names = names

    def run(self, record: QueryRecord) -> Batches:
        """Yield one row per column."""
        del record
        yield self._told()

    def explain(self) -> list[tuple[str, str]]:
        """Return the names and types of the columns."""
        told = self._told()
        return list(zip(told["column_name"].to_pylist(), told["data_type"].to_pylist(), strict=True))

    def _told(self) -> pa.RecordBatch:
        """Let DataFusion describe an empty table of these columns, so that types have DataFusion's names."""
        places = [str(place) for place in range(len(self._columns))]  # two columns of a query can have one name
        context = SessionContext()
        columns = pa.schema([field.with_name(place) for place, field in zip(places, self._columns, strict=True)])
        context.register_record_batches("described", [[pa.RecordBatch.from_pylist([], columns)]])
        told = context.sql("DESCRIBE described").to_arrow_table()
        texts = [told[name].cast(pa.string()).combine_chunks() for name in self.schema.names[1:]]
        return pa.RecordBatch.from_arrays([pa.array(self._names, pa.string()), *texts], schema=self.schema)


class DescribeQuery:
    """DESCRIBE of a table: DataFusion's description of the columns, and the keys."""

    def __init__(self, query: Query, keys: TableKeys) -> None:
        self._query = query
        self._keys = keys
        self.schema = query.schema.append(pa.field("key", pa.string()))

    def run(self, record: QueryRecord) -> Batches:
        """Yield one row per column."""
        with closing(self._query.run(record)) as batches:
            for batch in batches:
                told = [self._keys.column_remark(name) for name in batch.column(0).to_pylist()]
                yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(told, pa.string())], schema=self.schema)

    def explain(self) -> list[tuple[str, str]]:
        """Return the plan of the query for the columns."""
        return self._query.explain()


@dataclass(frozen=True, slots=True)
class EmptyQuery:
    """A query whose parameters have no row."""

    schema: pa.Schema

    def run(self, record: QueryRecord) -> Batches:
        """Yield nothing."""
        del record
        yield from ()

    def explain(self) -> list[tuple[str, str]]:
        """Return nothing."""
        return []


def _texts(lines: list[tuple[str, str]], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([line[i] for line in lines], pa.string()) for i in range(2)], schema=schema
    )
