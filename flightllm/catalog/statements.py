"""The statements that create, change and drop tables, views and schemas."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import count

import pyarrow as pa
from datafusion import SessionContext

from flightllm.catalog import memory, views
from flightllm.catalog.attached import is_of
from flightllm.catalog.entries import Entry
from flightllm.catalog.managed import new_table
from flightllm.catalog.renaming import rename, to_rename
from flightllm.catalog.rewriting import Collect, check_change, run_change
from flightllm.catalog.store import TableStore
from flightllm.catalog.truncating import to_truncate, truncate
from flightllm.common.json_columns import with_json_types
from flightllm.common.names import DEFAULT_SCHEMA, RESERVED, TableName, is_temporary, quoted
from flightllm.config import LimitsConfig
from flightllm.datafusion.contexts import ROWS_ONLY, planned_text, scratch_context
from flightllm.datafusion.errors import mapped_error
from flightllm.errors import InvalidInputError, NotFoundError, PermissionDeniedError, SqlError, UnsupportedError
from flightllm.plan.bounds import unbounded
from flightllm.sql.keys import ForeignKey, Key, TableKeys
from flightllm.sql.statement import Statement


def execute(store: TableStore, statement: Statement, collect: Collect, owner: str, seen: Collection[TableName]) -> int:
    """Run a statement that changes tables and computes no rows; return the rows affected, or -1.

    `seen` are the tables whose names the principal can learn.
    """
    name = target_of(statement)
    match statement.kind:
        case "create_table":
            _create_table(store, statement, name, owner)
        case "create_view":
            _create_view(store, statement, name, owner)
        case "create_schema":
            _create_schema(store, statement, name.schema)
        case "drop_schema":
            _drop_schema(store, statement, name.schema)
        case "drop_table" | "drop_view":
            _drop(store, statement)
        case "delete" | "update":
            return run_change(store, name, statement.text, statement.query or "", collect)
        case "rename_table" | "rename_view":
            rename(store, statement, seen)
        case "truncate":
            truncate(store, statement, seen)
            return 0  # as in PostgreSQL, which does not count these rows
        case _:
            raise UnsupportedError(f"{statement.kind.upper()} is not a change to tables")
    return -1


def check(store: TableStore, statement: Statement, seen: Collection[TableName]) -> None:
    """Raise the errors of `execute` that planning finds. See `Catalog.check`."""
    name = target_of(statement)
    match statement.kind:
        case "create_table":
            schema = _schema_of(store, statement)
            if check_create(store, statement):
                _checked_keys(store, statement.keys, name, schema.names)
        case "drop_table" | "drop_view":
            _to_drop(store, statement)
        case "delete" | "update":
            check_change(store, name, statement.text, statement.query or "")
        case "rename_table" | "rename_view":
            to_rename(store, statement, seen)
        case "truncate":
            to_truncate(store, statement, seen)


def target_of(statement: Statement) -> TableName:
    """Return the name of the table, view or schema that a statement changes.

    Raises:
        UnsupportedError: the statement changes no table, view or schema.
    """
    if statement.target is None:
        raise UnsupportedError(f"{statement.kind.upper()} is not a change to tables")
    return statement.target


def targets_of(statement: Statement) -> tuple[TableName, ...]:
    """Return the names of all tables, views or schemas that a statement changes; DROP and TRUNCATE can have several.

    Raises:
        UnsupportedError: the statement changes no table, view or schema.
    """
    return statement.dropped or (target_of(statement),)


def check_create(store: TableStore, statement: Statement) -> bool:
    """Return whether a CREATE statement must do anything. See `Catalog.check_create`."""
    name = target_of(statement)
    store.check_schema(name.schema)
    entry = store.entries.get(name)
    if entry is None:
        return True
    if statement.exists_ok:
        return False
    if not statement.or_replace:
        raise InvalidInputError(f"{name.display!r} exists: write CREATE OR REPLACE, or IF NOT EXISTS")
    if entry.kind == "file":
        raise PermissionDeniedError(
            f"{name.display!r} is registered by the server's configuration: choose another name"
        )
    if entry.is_view != (statement.kind == "create_view"):
        raise InvalidInputError(f"{name.display!r} is a {_what(entry).lower()}: drop it first, or choose another name")
    if (entry.kind == "external") != (statement.kind == "create_external"):
        kind = "an external table" if entry.kind == "external" else "a table that the server stores"
        raise InvalidInputError(f"{name.display!r} is {kind}: drop it first, or choose another name")
    return True


def create_ai_view(store: TableStore, statement: Statement, schema: pa.Schema, owner: str) -> None:
    """Store a view whose query has AI calls. See `Catalog.create_ai_view`."""
    name = target_of(statement)
    query = statement.query or ""
    names = statement.columns or schema.names
    if len(names) != len(schema):
        raise SqlError(f"the view names {len(names)} columns but its query returns {len(schema)}")
    fields = [field.with_name(new) for field, new in zip(schema, names, strict=True)]
    plain = memory.plain_schema(pa.schema(fields))
    entry = Entry(name, "ai_view", plain, None, query, statement.columns, owner=owner)
    with store.lock:
        if check_create(store, statement):
            views.check_not_circular(entry, store.entries)
            store.put(entry)


def _create_table(store: TableStore, statement: Statement, name: TableName, owner: str) -> None:
    schema = _schema_of(store, statement)
    with store.lock:
        if check_create(store, statement):
            keys = _checked_keys(store, statement.keys, name, schema.names)
            store.put(replace(new_table(name, schema, (), owner, statement.tail), keys=keys))


def _schema_of(store: TableStore, statement: Statement) -> pa.Schema:
    """Return the schema of a table that CREATE TABLE defines by a column list."""
    scratch = scratch_context()
    try:
        scratch.sql(f"CREATE TABLE t {statement.tail}")
    except Exception as error:
        raise mapped_error(error) from error
    schema = scratch.catalog().schema("public").table("t").schema
    memory.plain_schema(schema)
    if schema.names:
        _check_defaults(scratch, statement.tail, schema, store.limits)
    return with_json_types(schema, statement.json_columns)


def _checked_keys(store: TableStore, keys: TableKeys, name: TableName, columns: Sequence[str]) -> TableKeys:
    """Return the keys of a table; each foreign key gets the columns that it refers to.

    Raises:
        NotFoundError: a key names an unknown column, or a foreign key refers to an unknown table or column.
        SqlError: a foreign key without columns refers to a table whose primary key has another number of columns.
    """
    declared: tuple[Key | ForeignKey, ...] = (*keys.candidates, *keys.foreign)
    for key in declared:
        check_columns(key, name, key.columns, columns)
    foreign = tuple(_checked_foreign(store, one, keys, name, columns) for one in keys.foreign)
    return replace(keys, foreign=foreign)


def _checked_foreign(
    store: TableStore, key: ForeignKey, keys: TableKeys, name: TableName, columns: Sequence[str]
) -> ForeignKey:
    if key.table != name:
        other = store.entries.get(key.table)
        if other is None:
            raise store.missing(key.table)
        keys, columns = other.keys, other.schema.names
    primary = keys.primary.columns if keys.primary else ()
    referred = key.references or primary
    if len(referred) != len(key.columns):
        raise SqlError(
            f"the foreign key {key.name!r} does not say which columns of {key.table.display!r} it refers to, and the"
            f" primary key of that table has {len(primary)}: write REFERENCES {key.table.display} (column, …)"
        )
    check_columns(key, key.table, referred, columns)
    return replace(key, references=referred)


def check_columns(key: Key | ForeignKey, table: TableName, named: Sequence[str], columns: Sequence[str]) -> None:
    """Raise `NotFoundError` if a key names a column that its table does not have."""
    for one in named:
        if one not in columns:
            raise NotFoundError(
                f"the key {key.name!r} names the column {one!r}, but {table.display!r} has no such column; its columns"
                f" are {', '.join(columns)}"
            )


def _check_defaults(scratch: SessionContext, definition: str, schema: pa.Schema, limits: LimitsConfig) -> None:
    """Raise `UnsupportedError` if a column's default has no bound: each INSERT computes the defaults."""
    before, close, after = definition.rpartition(")")
    given = next(name for name in (f"given{number}" for number in count()) if name not in schema.names)
    scratch.sql(f"CREATE TABLE defaults {before}, {quoted(given)} INT{close}{after}")
    insert = f"INSERT INTO defaults ({quoted(given)}) VALUES (NULL)"
    try:
        (rows,) = planned_text(scratch, insert, ROWS_ONLY).logical_plan().inputs()
    except Exception as error:
        raise mapped_error(error) from error
    if reason := unbounded(scratch, scratch.create_dataframe_from_logical_plan(rows), limits):
        raise UnsupportedError(
            f"the cost of a DEFAULT has no bound ({reason}): write a constant, or give the value in INSERT"
        )


def _create_view(store: TableStore, statement: Statement, name: TableName, owner: str) -> None:
    entry = Entry(name, "view", pa.schema([]), None, statement.query or "", statement.columns, owner=owner)
    if not check_create(store, statement):
        return
    views.check_not_circular(entry, store.entries)
    planned = store.plans.planned(entry, {**store.entries, name: entry})
    with store.lock:
        if check_create(store, statement):
            views.check_not_circular(entry, store.entries)  # other statements can create views in the meantime
            store.put(replace(entry, schema=planned.schema))


def _create_schema(store: TableStore, statement: Statement, schema: str) -> None:
    if schema in RESERVED or is_temporary(schema):
        raise PermissionDeniedError(f"the schema {schema!r} belongs to the server: choose another name")
    if any(is_of(database, schema) for database in store.attached.all):
        raise PermissionDeniedError(f"the schema {schema!r} belongs to an attached database: choose another name")
    with store.lock:
        if schema in store.schemas() and not statement.exists_ok:
            raise InvalidInputError(f"the schema {schema!r} exists: choose another name, or write IF NOT EXISTS")
        store.add_schema(schema)


def _drop_schema(store: TableStore, statement: Statement, schema: str) -> None:
    if schema in {*RESERVED, DEFAULT_SCHEMA}:
        raise PermissionDeniedError(f"the schema {schema!r} cannot be dropped")
    if any(is_of(database, schema) for database in store.attached.all):
        raise PermissionDeniedError(f"the schema {schema!r} belongs to an attached database: write DETACH")
    with store.lock:
        if any(name.schema == schema for name in store.entries):
            raise InvalidInputError(f"the schema {schema!r} is not empty: drop its tables first")
        if schema in store.schemas():
            store.drop_schema(schema)
        elif not statement.exists_ok:
            raise NotFoundError(f"there is no schema {schema!r}")


def _drop(store: TableStore, statement: Statement) -> None:
    with store.lock:
        if names := _to_drop(store, statement):
            store.remove(*names)


def _to_drop(store: TableStore, statement: Statement) -> list[TableName]:
    """Return the tables or views that DROP must remove."""
    found = list[TableName]()
    for name in statement.dropped:
        entry = store.entries.get(name)
        if entry is None and statement.exists_ok:
            continue
        if entry is None or not (entry.is_view or entry.kind == "external"):
            entry = store.writable(name)
        if entry.is_view != (statement.kind == "drop_view"):
            raise InvalidInputError(f"{name.display!r} is a {_what(entry).lower()}: write DROP {_what(entry)}")
        found.append(name)
    return found


def _what(entry: Entry) -> str:
    return "VIEW" if entry.is_view else "TABLE"
