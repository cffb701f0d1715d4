"""UPDATE and DELETE: files with rows to change are rewritten, the other files stay."""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from datafusion import DataFrame, SessionContext, SQLOptions
from datafusion.catalog import Catalog, Schema, Table

from flightllm.catalog.entries import Entry, check_files
from flightllm.catalog.managed import put_files, rows_of, same_table
from flightllm.catalog.memory import memory_table, with_schema
from flightllm.catalog.opening import rows_table
from flightllm.catalog.store import TableStore
from flightllm.catalog.stored_json import stored_json
from flightllm.common.names import CATALOG, DEFAULT_SCHEMA, TableName
from flightllm.common.row_groups import gathered
from flightllm.common.stopping import text_is_read
from flightllm.datafusion.contexts import QUERY_ONLY, ROWS_ONLY, plain_config, planned_text
from flightllm.datafusion.errors import mapped_error
from flightllm.datafusion.run import STATISTICS
from flightllm.errors import UnsupportedError
from flightllm.plan.bounds import unbounded
from flightllm.storage.rows import StoredFile, read_rows, write_rows

Collect = Callable[[DataFrame], Iterable[pa.RecordBatch]]
"""Runs a query to its end; the caller can pass a function that raises when the query is cancelled."""
_NAMING_RULES = ("common_sub_expression_eliminate", "extract_leaf_expressions", "push_down_leaf_projections")
"""Optimizer rules that give names to parts of expressions. DataFusion's DML loses these names, so they are off."""


def run_change(store: TableStore, name: TableName, text: str, counting: str, collect: Collect) -> int:
    """Run a checked UPDATE or DELETE of `name`; return the number of changed rows.

    `counting` is a query that counts the rows to change; `collect` runs it for each file. A file with a count of 0 is
    not touched. This check is necessary: DataFusion folds a condition such as `a = 1 AND a = 2` to false, then drops
    it and changes every row. The change of a row does not depend on other rows, so groups of rows are changed in
    memory.
    """
    with store.folder.readers.open():
        entry = check_change(store, name, text, counting)
        check_files(entry)
        text_is_read()
        with store.rewriting(rows_of(entry)):
            return _Change(store, same_table(store, entry), text, counting, collect).run()


def check_change(store: TableStore, name: TableName, text: str, counting: str) -> Entry:
    """Plan an UPDATE or DELETE without running it; return the table that it changes.

    Raises:
        FlightLLMError: the statement is wrong, or the table cannot be changed.
    """
    entry = store.writable(name)
    counted, context = store.context(), _context(name, memory_table([], entry.schema))
    for planned_in, frame in ((counted, _sql(counted, counting)), (context, _sql(context, text, ROWS_ONLY))):
        if reason := unbounded(planned_in, frame, store.limits):
            raise UnsupportedError(
                f"UPDATE and DELETE need an expression with a bound ({reason}): write CREATE OR REPLACE TABLE"
                f" {name.sql} AS SELECT …"
            )
    return entry


class _Change:
    """One UPDATE or DELETE. The caller holds the table's lock."""

    def __init__(self, store: TableStore, entry: Entry, text: str, counting: str, collect: Collect) -> None:
        self._store = store
        self._entry = entry
        self._text = text
        self._counting = counting
        self._collect = collect
        self._old = rows_of(entry)
        self._changed = 0

    def run(self) -> int:
        files, written = list[StoredFile](), list[StoredFile]()
        try:
            for index, file in enumerate(self._old.files):
                if not self._count(index):
                    files.append(file)
                    continue
                self._store.compare(self._entry.name, [file])
                batches = read_rows([self._old.path(index)], self._entry.schema)
                new = write_rows(self._store.folder, self._entry.schema, self._rewritten(batches))
                if new is not None:
                    files.append(new)
                    written.append(new)
            if self._changed:
                put_files(self._store, self._entry, files)
        finally:
            self._store.discard(file.name for file in written)
        return self._changed

    def _count(self, index: int) -> int:
        path = self._old.path(index)
        table = rows_table(str(path), path.suffix, self._entry.schema)
        return _total(self._rows(_sql(_context(self._entry.name, table), self._counting)))

    def _rows(self, frame: DataFrame) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._collect(frame)
        except Exception as error:
            raise mapped_error(error) from error

    def _rewritten(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows after the change."""
        schema = self._entry.schema
        for group in gathered(batches):
            context = _context(self._entry.name, memory_table(group, schema))
            try:
                self._changed += _total(_sql(context, self._text, ROWS_ONLY).collect())
            except Exception as error:
                raise mapped_error(error) from error
            rows = self._rows(_sql(context, f"SELECT * FROM {self._entry.name.sql}"))
            yield from stored_json((with_schema(batch, schema) for batch in rows), schema)


def _context(name: TableName, table: Table) -> SessionContext:
    """Return a context that knows only one table: `table`, under the name `name`."""
    config = plain_config().with_create_default_catalog_and_schema(enabled=False)
    config = config.with_default_catalog_and_schema(CATALOG, DEFAULT_SCHEMA)
    config = config.with_target_partitions(1)  # one partition, so that rows keep their order
    config = config.set(STATISTICS, "false")  # some estimates fail, and a query of a single table works without them
    catalog, schema = Catalog.memory_catalog(), Schema.memory_schema()
    schema.register_table(name.name, table)
    catalog.register_schema(name.schema, schema)
    context = SessionContext(config)
    context.register_catalog_provider(CATALOG, catalog)
    for rule in _NAMING_RULES:
        context.remove_optimizer_rule(rule)
    return context


def _sql(context: SessionContext, text: str, options: SQLOptions = QUERY_ONLY) -> DataFrame:
    try:
        return planned_text(context, text, options)
    except Exception as error:
        raise mapped_error(error) from error


def _total(batches: Iterable[pa.RecordBatch]) -> int:
    """Return the sum of the first column: DataFusion's count of changed rows."""
    return sum(count for batch in batches for count in batch.column(0).to_pylist())
