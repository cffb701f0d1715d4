"""The tables that a server process shipped to this sandbox process, for DataFusion's look-ups here."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import cast

import pyarrow as pa
from datafusion import SessionContext, col
from datafusion.catalog import Catalog, SchemaProvider, Table

from flightllm.catalog.entries import Entry, Planned, SchemaTables, SystemSchema
from flightllm.catalog.files import known_table
from flightllm.catalog.memory import memory_table
from flightllm.catalog.planning import ViewPlans
from flightllm.catalog.shipping import Shipped, ShippedTable
from flightllm.common.names import SYSTEM_SCHEMA, TableName, quoted
from flightllm.config import LimitsConfig
from flightllm.datafusion.contexts import QUERY_ONLY, Memory, planned_text, scratch_context, shared_context, with_types
from flightllm.storage.objects import ObjectStores

Entries = Mapping[TableName, Entry]


class ReceivedTables:
    """The tables that one query reads, and contexts over them."""

    def __init__(
        self,
        shipped: Shipped,
        limits: LimitsConfig,
        stores: ObjectStores,
        functions: Callable[[SessionContext], None] = lambda _: None,
    ) -> None:
        """Open the tables; `functions` registers the functions that the query and its views call.

        If a row filter or mask does not fit its table, DataFusion's own exception passes through.
        """
        self._shipped = shipped
        self._limits = limits
        self._stores = stores
        self._functions = functions
        self._memory = Memory(limits)
        self._system = _SentRows(shipped.system, shipped.rows)
        self._plans = ViewPlans(limits, self._context)
        below = self._opened(shipped.below)
        whole = self._context(below, self._plans.looked_up)
        self._entries = self._opened(shipped.seen)
        for table in shipped.seen:
            if table.restricted:
                entry = self._entries[table.name]
                types = (entry.provider or memory_table([], table.schema)).schema.types
                frame = with_types(planned_text(whole, table.restricted, QUERY_ONLY), types)
                self._entries[table.name] = replace(entry, provider=Table(frame), stored=below[table.name].whole)

    def context(self) -> SessionContext:
        """Return a fresh context over the tables of the query."""
        return self._context(self._entries, self._plans.looked_up)

    def _context(self, entries: Entries, planned: Planned) -> SessionContext:
        catalog = Catalog.memory_catalog()
        for schema in self._shipped.schemas:
            tables = _Tables(schema, entries, planned, self._shipped.suffix)
            catalog.register_schema(schema, cast("SchemaProvider", tables))
        if self._shipped.system:
            catalog.register_schema(SYSTEM_SCHEMA, cast("SchemaProvider", SystemSchema(self._system)))
        context = shared_context(catalog, self._memory, planning=False, parallel=True)
        self._functions(context)
        return self._stores.register(context)

    def _opened(self, tables: Iterable[ShippedTable]) -> dict[TableName, Entry]:
        return {table.name: self._entry(table) for table in tables}

    def _entry(self, table: ShippedTable) -> Entry:
        if table.query:
            return Entry(table.name, "view", table.schema, None, table.query, table.columns)
        if not table.location:
            return Entry(table.name, "managed", table.schema, memory_table([], table.schema))
        files = known_table(table.location, table.suffix, table.stored or table.schema, self._stores, table.csv)
        if table.stored is None:
            return Entry(table.name, "file", table.schema, files)
        scratch = scratch_context()
        scratch.register_table("stored", files)
        columns = [col(quoted(field.name)).cast(field.type).alias(field.name) for field in table.schema]
        return Entry(table.name, "file", table.schema, Table(scratch.table("stored").select(*columns)), stored=files)


class _Tables(SchemaTables):
    """One schema; hidden names have the suffix that the sending process uses."""

    def __init__(self, schema: str, entries: Entries, planned: Planned, suffix: str) -> None:
        super().__init__(schema, lambda: entries, planned)
        self._known = entries
        self._suffix = suffix

    def table(self, name: str) -> Table | None:
        """Return a table's provider, or None if there is no such table."""
        if not name.endswith(self._suffix):
            return super().table(name)
        entry = self._known.get(TableName(self._schema, name.removesuffix(self._suffix)))
        return entry.whole if entry else None


class _SentRows:
    """The system tables at the time when the query was sent."""

    def __init__(self, schemas: Mapping[str, pa.Schema], rows: Mapping[str, bytes]) -> None:
        self.schemas = schemas
        self._rows = rows

    def snapshot(self, name: str) -> pa.Table:
        """Return the rows of a table; a table that the query does not name is empty."""
        if name not in self._rows:
            return self.schemas[name].empty_table()
        with pa.ipc.open_stream(self._rows[name]) as reader:
            return reader.read_all()
