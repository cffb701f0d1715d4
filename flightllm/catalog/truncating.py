"""TRUNCATE: tables lose all their rows in one step, without a look at the rows."""

from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import replace
from uuid import uuid4

from flightllm.catalog.entries import Entry, check_bytes, check_files
from flightllm.catalog.managed import rows_of
from flightllm.catalog.store import TableStore
from flightllm.common.names import TableName, is_temporary
from flightllm.errors import InvalidInputError, PermissionDeniedError
from flightllm.sql.statement import Statement


def truncate(store: TableStore, statement: Statement, seen: Collection[TableName]) -> None:
    """Empty the tables of a TRUNCATE, all or none; see `to_truncate`."""
    while not _truncated(store, statement, seen):
        pass  # a foreign key or a table came while this statement waited for locks


def _truncated(store: TableStore, statement: Statement, seen: Collection[TableName]) -> bool:
    """Empty the tables; return False, and leave them, if other tables are due once their locks are held."""
    entries = to_truncate(store, statement, seen)
    for entry in entries:
        check_files(entry)
    with ExitStack() as held:
        # Two statements take the locks of their tables in the same order, so neither waits for the other forever.
        for entry in sorted(entries, key=lambda entry: rows_of(entry).identity):
            held.enter_context(store.rewriting(rows_of(entry)))
        with store.lock:
            due = to_truncate(store, statement, seen)
            if _identities(due) != _identities(entries):
                return False
            store.put(*map(_emptied, due))
            return True


def _identities(entries: Collection[Entry]) -> set[str]:
    return {rows_of(entry).identity for entry in entries}


def to_truncate(store: TableStore, statement: Statement, seen: Collection[TableName]) -> list[Entry]:
    """Return the tables that a TRUNCATE empties; CASCADE adds those with foreign keys to them, and so on.

    `seen` are the tables whose names the principal can learn.

    Raises:
        InvalidInputError: without CASCADE, another table has a foreign key to one of the tables.
        NotFoundError: a table does not exist.
        PermissionDeniedError: a table is a file, a view or a system table, or CASCADE reaches a hidden table.
    """
    names = [name for name in statement.dropped if not statement.exists_ok or name in store.entries]
    found = {name: store.writable(name) for name in names}
    while more := [
        entry for entry in store.entries.values() if entry.name not in found and _refers(entry, found, seen)
    ]:
        known = ", ".join(sorted(entry.name.display for entry in more if entry.name in seen)) or "a table"
        if not statement.cascade:
            raise InvalidInputError(
                f"{known} has foreign keys to the tables of TRUNCATE: name each of them in the same statement, or write"
                " CASCADE"
            )
        if any(entry.name not in seen for entry in more):
            raise PermissionDeniedError(
                "CASCADE would empty a table that you cannot see, because it has a foreign key to a table of TRUNCATE:"
                " ask an admin"
            )
        found |= {entry.name: entry for entry in more}
    return list(found.values())


def _refers(entry: Entry, tables: Collection[TableName], seen: Collection[TableName]) -> bool:
    """Return whether a table has a foreign key to one of `tables`; temporary tables of other sessions do not count."""
    there = entry.name in seen or not is_temporary(entry.name.schema)
    return there and any(key.table in tables for key in entry.keys.foreign)


def _emptied(entry: Entry) -> Entry:
    check_bytes(entry)
    rows = replace(rows_of(entry), files=(), revision=uuid4().hex, folder=None)
    return replace(entry, rows=rows, provider=None)
