"""ALTER … RENAME TO and SET SCHEMA: a table or view gets another name in one step."""

from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import replace

from flightllm.catalog.entries import Entry, ViewPlan
from flightllm.catalog.reading import read_by
from flightllm.catalog.store import TableStore
from flightllm.common.names import TableName, is_temporary
from flightllm.errors import InternalError, InvalidInputError, UnsupportedError
from flightllm.sql.statement import Statement


def rename(store: TableStore, statement: Statement, seen: Collection[TableName]) -> None:
    """Rename a table or view, and the table in the foreign keys that refer to it; see `to_rename`."""
    with ExitStack() as held:
        entry = to_rename(store, statement, seen)
        if entry is not None and entry.rows is not None:  # a change of rows that runs must find the table at its end
            held.enter_context(store.rewriting(entry.rows))
        with store.lock:
            entry = to_rename(store, statement, seen)
            if entry is not None:
                store.rename(entry.name, *_renamed(store, entry, _new_name(statement)))


def to_rename(store: TableStore, statement: Statement, seen: Collection[TableName]) -> Entry | None:
    """Return the table or view that a statement renames, or None if it is missing and IF EXISTS was written.

    `seen` are the tables whose names the principal can learn.

    Raises:
        InvalidInputError: the new name is taken, a view reads the table, or ALTER VIEW names a table.
        NotFoundError: the table or the new schema does not exist.
        PermissionDeniedError: the configuration registers the table, or a schema belongs to the server.
        UnsupportedError: the statement moves a temporary table or view to another schema, or any other into theirs.
    """
    (name,), new = statement.dropped, _new_name(statement)
    entry = store.entries.get(name)
    if entry is None and statement.exists_ok:
        return None
    if entry is None or not (entry.is_view or entry.kind == "external"):
        entry = store.writable(name)
    if statement.kind == "rename_view" and not entry.is_view:
        raise InvalidInputError(f"{name.display!r} is a table: write ALTER TABLE")
    if name.schema != new.schema:
        _check_move(entry, new)
    store.check_schema(new.schema)
    if new in store.entries:
        raise InvalidInputError(f"{new.display!r} exists: drop or rename it first, or choose another name")
    _check_readers(store, name, seen)
    return entry


def _check_move(entry: Entry, new: TableName) -> None:
    if is_temporary(entry.name.schema) or is_temporary(new.schema):
        raise UnsupportedError("a temporary table stays in its session: create another table with CREATE TABLE … AS")


def _check_readers(store: TableStore, name: TableName, seen: Collection[TableName]) -> None:
    """Raise `InvalidInputError` if a view reads a table: its text would then mean no table, or later another one."""
    readers = [
        entry.name
        for entry in store.entries.values()
        if entry.query and (entry.name in seen or not is_temporary(entry.name.schema)) and name in read_by(entry).tables
    ]
    if readers:
        known = ", ".join(sorted(reader.display for reader in readers if reader in seen)) or "of other users"
        raise InvalidInputError(
            f"views read {name.display!r} by its name: {known}; drop them, and create them again after the change"
        )


def _renamed(store: TableStore, entry: Entry, new: TableName) -> list[Entry]:
    """Return a table under its new name, and each table with foreign keys to it."""
    moved = replace(entry, name=new, plan=ViewPlan())
    changed = {entry.name: moved}
    for other in store.entries.values():
        if any(key.table == entry.name for key in other.keys.foreign):
            foreign = (replace(key, table=new) if key.table == entry.name else key for key in other.keys.foreign)
            kept = changed.get(other.name, other)
            changed[other.name] = replace(kept, keys=replace(other.keys, foreign=tuple(foreign)))
    return list(changed.values())


def _new_name(statement: Statement) -> TableName:
    if statement.renamed is None:
        raise InternalError("ALTER without a new name")
    return statement.renamed
