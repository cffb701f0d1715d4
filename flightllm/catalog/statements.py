"""The statements that change what tables, views and schemas there are."""

from dataclasses import replace
from itertools import pairwise

import pyarrow as pa

from flightllm.catalog import memory, views
from flightllm.catalog.contexts import scratch_context
from flightllm.catalog.entries import Entry
from flightllm.catalog.errors import mapped_error
from flightllm.catalog.managed import new_table
from flightllm.catalog.rewriting import Collect, check_change, run_change
from flightllm.catalog.store import TableStore
from flightllm.errors import InvalidInputError, NotFoundError, PermissionDeniedError, SqlError, UnsupportedError
from flightllm.sql.names import DEFAULT_SCHEMA, RESERVED, TableName
from flightllm.sql.statement import Statement
from flightllm.sql.tokens import tokenize

_VIEWS = ("view", "ai_view")
_CONSTRAINTS = ("primary", "unique", "check", "foreign")
_PROMISES = (
    *("references", "key", "generated", "auto_increment", "autoincrement", "materialized", "alias", "ephemeral"),
    *("collate", "on"),
)
"""What begins other parts of a column's definition that DataFusion reads and forgets; columns may be called so."""


def execute(store: TableStore, statement: Statement, collect: Collect, owner: str) -> int:
    """Run a statement that changes tables and computes no rows; return the rows affected, or -1."""
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
            _drop(store, statement, name)
        case "delete" | "update":
            return run_change(store, name, statement.text, statement.query or "", collect)
        case _:
            raise UnsupportedError(f"{statement.kind.upper()} is not a change to tables")
    return -1


def check(store: TableStore, statement: Statement) -> None:
    """Raise what `execute` would, as far as planning tells. See `Catalog.check`."""
    name = target_of(statement)
    match statement.kind:
        case "create_table":
            _schema_of(statement)
            check_create(store, statement)
        case "drop_table" | "drop_view":
            _to_drop(store, statement, name)
        case "delete" | "update":
            check_change(store, name, statement.text, statement.query or "")


def target_of(statement: Statement) -> TableName:
    """Return the name a statement is about.

    Raises:
        UnsupportedError: it is about none.
    """
    if statement.target is None:
        raise UnsupportedError(f"{statement.kind.upper()} is not a change to tables")
    return statement.target


def check_create(store: TableStore, statement: Statement) -> bool:
    """Tell whether a CREATE statement has anything to do. See `Catalog.check_create`."""
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
    if (entry.kind in _VIEWS) != (statement.kind == "create_view"):
        raise InvalidInputError(f"{name.display!r} is a {_what(entry).lower()}: drop it first, or choose another name")
    if (entry.kind == "external") != (statement.kind == "create_external"):
        kind = "an external table" if entry.kind == "external" else "a table with rows of its own"
        raise InvalidInputError(f"{name.display!r} is {kind}: drop it first, or choose another name")
    return True


def create_ai_view(store: TableStore, statement: Statement, schema: pa.Schema, owner: str) -> None:
    """Keep a view whose query has AI calls. See `Catalog.create_ai_view`."""
    name = target_of(statement)
    query = statement.query or ""
    if name.schema != DEFAULT_SCHEMA:
        raise UnsupportedError(f"a view with AI calls must be in the schema {DEFAULT_SCHEMA}: CREATE VIEW {name.name}")
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
    schema = _schema_of(statement)
    with store.lock:
        if check_create(store, statement):
            store.put(new_table(name, schema, (), owner, statement.tail))


def _schema_of(statement: Statement) -> pa.Schema:
    """Return the columns of a table that is defined by a list of them."""
    _check_definition(statement.tail)
    scratch = scratch_context()
    try:
        scratch.sql(f"CREATE TABLE t {statement.tail}")
    except Exception as error:
        raise mapped_error(error) from error
    schema = scratch.catalog().schema("public").table("t").schema
    memory.plain_schema(schema)
    return schema


def _check_definition(columns: str) -> None:
    """Raise `UnsupportedError` where a column list asks for what nothing here sees to."""
    depth = 0
    for before, token in pairwise(tokenize(columns)):
        depth += before.is_symbol("(") - before.is_symbol(")")
        first = any(before.is_symbol(symbol) for symbol in "(,<")
        if depth == 1 and (token.is_word(*_CONSTRAINTS) or (token.is_word(*_PROMISES) and not first)):
            what, instead = token.text.upper(), "write name, type, NOT NULL and DEFAULT"
            if token.is_word("primary", "unique"):
                what = "PRIMARY KEY" if what == "PRIMARY" else what
                instead = f"leave {what} out: nothing here checks that values are unique"
            raise UnsupportedError(f"{what} in CREATE TABLE is not supported: {instead}")


def _create_view(store: TableStore, statement: Statement, name: TableName, owner: str) -> None:
    entry = Entry(name, "view", pa.schema([]), None, statement.query or "", statement.columns, owner=owner)
    if not check_create(store, statement):
        return
    views.check_not_circular(entry, store.entries)
    planned = store.plans.planned(entry, {**store.entries, name: entry})
    with store.lock:
        if check_create(store, statement):
            views.check_not_circular(entry, store.entries)  # others may have been made since
            store.put(replace(entry, schema=planned.schema))


def _create_schema(store: TableStore, statement: Statement, schema: str) -> None:
    if schema in RESERVED:
        raise PermissionDeniedError(f"the schema {schema!r} is the server's own")
    with store.lock:
        if schema in store.schemas() and not statement.exists_ok:
            raise InvalidInputError(f"the schema {schema!r} exists")
        store.add_schema(schema)


def _drop_schema(store: TableStore, statement: Statement, schema: str) -> None:
    if schema in {*RESERVED, DEFAULT_SCHEMA}:
        raise PermissionDeniedError(f"the schema {schema!r} cannot be dropped")
    with store.lock:
        if any(name.schema == schema for name in store.entries):
            raise InvalidInputError(f"the schema {schema!r} is not empty: drop its tables first")
        if schema in store.schemas():
            store.drop_schema(schema)
        elif not statement.exists_ok:
            raise NotFoundError(f"there is no schema {schema!r}")


def _drop(store: TableStore, statement: Statement, name: TableName) -> None:
    with store.lock:
        if _to_drop(store, statement, name):
            store.remove(name)


def _to_drop(store: TableStore, statement: Statement, name: TableName) -> bool:
    """Tell whether DROP has anything to do."""
    entry = store.entries.get(name)
    if entry is None and statement.exists_ok:
        return False
    if entry is None or entry.kind not in (*_VIEWS, "external"):
        entry = store.writable(name)
    if (entry.kind in _VIEWS) != (statement.kind == "drop_view"):
        raise InvalidInputError(f"{name.display!r} is a {_what(entry).lower()}: write DROP {_what(entry)}")
    return True


def _what(entry: Entry) -> str:
    return "VIEW" if entry.kind in _VIEWS else "TABLE"
