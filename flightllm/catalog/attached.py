"""Tables of attached databases: entries of the catalog in schemas such as `crm.public`."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Final, Protocol
from uuid import uuid4

from datafusion.catalog import Table

from flightllm.attached.database import AttachedDatabase
from flightllm.attached.databases import AttachedDatabases
from flightllm.attached.scan import AttachedTable
from flightllm.catalog.entries import Entry
from flightllm.catalog.reading import named_in
from flightllm.common.names import STORED_SUFFIX, TableName
from flightllm.errors import FlightLLMError
from flightllm.sql.parsed_text import mentions

_WAIT_SECONDS: Final = 60.0
"""The longest time that a statement waits while another one reads the tables of a database."""


class HoldsTables(Protocol):
    """The part of the table store that this module needs."""

    attached: AttachedDatabases

    @property
    def entries(self) -> Mapping[TableName, Entry]:
        """Return all present entries."""

    def put_attached(self, database: str, entries: Iterable[Entry]) -> None:
        """Replace the tables of a database in one step."""


def schema_of(database: str, schema: str) -> str:
    """Return the schema that holds the tables of a source's schema."""
    return f"{database}.{schema}" if schema else database


def is_of(database: str, schema: str) -> bool:
    """Return whether a schema belongs to an attached database."""
    return schema == database or schema.startswith(f"{database}.")


def refresh(store: HoldsTables, words: frozenset[str] | None) -> None:
    """Read the tables of the databases that a text with `words` can name, where they are due.

    Without words, and for statements that list tables, these are all databases but those that failed lately. A source
    that fails keeps the tables of its last reading; a query that names it then tells why.
    """
    due = [database for database in store.attached.all.values() if database.is_due]
    if not due:
        return
    if words is None:
        wanted = [database for database in due if not database.problem]
    else:
        views = (mentions(entry.query) for entry in named_in(words, store.entries) if entry.query)
        named = words.union(*views)
        wanted = [database for database in due if database.name in named]
    for database in wanted:
        with suppress(FlightLLMError):  # the database keeps its problem
            # A list of tables waits for nobody: the source can be this server, which then lists its own tables.
            read_tables(store, database, 0 if words is None else _WAIT_SECONDS)


def read_tables(store: HoldsTables, database: AttachedDatabase, wait: float = _WAIT_SECONDS) -> None:
    """Read the tables of a database from its source, unless another thread just did, or does for longer than `wait`.

    Raises:
        FlightLLMError: the source failed; the tables of the last reading stay.
    """
    if not database.lock.acquire(timeout=wait):
        return
    try:
        if not database.is_due:
            return
        tables, source, run = database.tables(), database.source(), uuid4().hex
        if store.attached.all.get(database.name) is database:
            entries = [
                _entry(AttachedTable(database.name, source, table), run)
                for table in tables
                if table.columns and STORED_SUFFIX not in table.name
            ]
            store.put_attached(database.name, entries)
    finally:
        database.lock.release()


def _entry(found: AttachedTable, run: str) -> Entry:
    name = TableName(schema_of(found.database, found.table.schema), found.table.name)
    return Entry(name, "attached", found.schema, Table(found), format=run, attached=found)


def schemas_in(names: Collection[TableName], database: str) -> set[str]:
    """Return the schemas of a database among the names of tables."""
    return {name.schema for name in names if is_of(database, name.schema)}
