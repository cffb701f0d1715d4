"""Queries that the server answers itself: EXPLAIN, SHOW, DESCRIBE, and a query without a row of parameters."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from flightllm.common.type_names import name_of_text, type_name
from flightllm.datafusion.run import Batches
from flightllm.execution.cancel_token import stopped_by
from flightllm.execution.explain import JSON_SCHEMA, TEXT_SCHEMA, ShownQuery, explain
from flightllm.execution.query import Query
from flightllm.functions.own import OWN_PREFIX
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
        self._savings = statement.savings
        self.schema = JSON_SCHEMA if self._json else TEXT_SCHEMA

    @property
    def runs(self) -> ShownQuery | None:
        """Return the query that EXPLAIN ANALYZE runs; None for an EXPLAIN that only predicts."""
        return self._query if self._analyze else None

    def run(self, record: QueryRecord) -> Batches:
        """Yield one row per title and text, or one row with a JSON document."""
        with stopped_by(record.cancelled):
            told = explain(
                self._query,
                record,
                analyze=self._analyze,
                as_json=self._json,
                savings=self._savings,
                lines=self._lines,
            )
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
    """DESCRIBE of a query: its columns, under the names that users see."""

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
        types = [type_name(field.type) for field in self._columns]
        nullable = ["YES" if field.nullable else "NO" for field in self._columns]
        texts = [pa.array(column, pa.string()) for column in (self._names, types, nullable)]
        return pa.RecordBatch.from_arrays(texts, schema=self.schema)


class DescribeQuery:
    """DESCRIBE of a table: DataFusion's description of the columns, with SQL's names of types, and the keys."""

    def __init__(self, query: Query, keys: TableKeys) -> None:
        self._query = query
        self._keys = keys
        self.schema = query.schema.append(pa.field("key", pa.string()))

    def run(self, record: QueryRecord) -> Batches:
        """Yield one row per column."""
        with closing(self._query.run(record)) as batches:
            for batch in batches:
                names, types, nullable = batch.columns
                told = [self._keys.column_remark(name) for name in names.to_pylist()]
                columns = [
                    names,
                    _named_types(types),
                    nullable,
                    pa.array(told, pa.string()),
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def explain(self) -> list[tuple[str, str]]:
        """Return the plan of the query for the columns."""
        return self._query.explain()


class ShowColumnsQuery:
    """SHOW COLUMNS of a table: DataFusion's list of the columns, with SQL's names of types."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self.schema = query.schema

    def run(self, record: QueryRecord) -> Batches:
        """Yield one row per column."""
        place = self.schema.get_field_index("data_type")
        with closing(self._query.run(record)) as batches:
            for batch in batches:
                columns = batch.columns
                columns[place] = _named_types(columns[place])
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def explain(self) -> list[tuple[str, str]]:
        """Return the plan of the query for the columns."""
        return self._query.explain()


class ShowFunctionsQuery:
    """SHOW FUNCTIONS: DataFusion's list, without the functions that only the server's own texts call."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self.schema = query.schema

    def run(self, record: QueryRecord) -> Batches:
        """Yield one row per function and types of its arguments."""
        with closing(self._query.run(record)) as batches:
            for batch in batches:
                names = batch.column(self.schema.get_field_index("function_name"))
                yield batch.filter(pc.invert(pc.starts_with(names, OWN_PREFIX)))

    def explain(self) -> list[tuple[str, str]]:
        """Return the plan of the query for the functions."""
        return self._query.explain()


def _named_types(types: pa.Array) -> pa.Array:
    """Return SQL's names of the types that DataFusion names."""
    sql = {text: name_of_text(text) for text in types.unique().drop_null().to_pylist()}
    return pa.array(map(sql.get, types.to_pylist()), types.type)


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
