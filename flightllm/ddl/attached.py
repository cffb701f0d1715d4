"""ATTACH, DETACH and REFRESH DATABASE, which only admins run."""

import re
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Final

from flightllm.attached.database import AttachedDatabase
from flightllm.catalog.attached import is_of, read_tables
from flightllm.common.names import CATALOG, DEFAULT_SCHEMA, RESERVED
from flightllm.common.redaction import kept_if_done
from flightllm.config.attached import AttachedConfig
from flightllm.errors import ConfigError, InvalidInputError, NotFoundError
from flightllm.execution.context import Services
from flightllm.sql.grants import ObjectKind
from flightllm.sql.statement import Statement

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")
_TAKEN: Final = frozenset({CATALOG, DEFAULT_SCHEMA, *RESERVED, "pg_catalog", "temp", "main"})
_NUMBERS: Final[Mapping[str, type[float] | type[int]]] = {"ttl_seconds": float, "connect_seconds": int}


def change_attached(statement: Statement, services: Services) -> int:
    """Run a statement about attached databases; the caller has checked that the user is an admin.

    Raises:
        FlightLLMError: the statement is wrong, or the source failed; nothing was changed.
    """
    databases = services.catalog.store.attached
    guard = nullcontext() if statement.kind == "refresh_database" else databases.changing
    with guard:
        return _changed(statement.key or "", statement, services)


def _changed(name: str, statement: Statement, services: Services) -> int:
    databases = services.catalog.store.attached
    if statement.kind == "attach":
        _attach(name, statement, services)
        return -1
    database = databases.all.get(name)
    if database is None:
        if statement.exists_ok:
            return -1
        known = ", ".join(sorted(databases.all)) or "none"
        raise NotFoundError(f"there is no attached database {name!r}; the attached databases are: {known}")
    if statement.kind == "refresh_database":
        database.expire()
        read_tables(services.catalog.store, database)
        return -1
    if name in databases.configured:
        raise InvalidInputError(
            f"the database {name!r} is attached by the server's configuration: take [attached.{name}] out of it"
        )
    _detach(database, services)
    return -1


def _detach(database: AttachedDatabase, services: Services) -> None:
    """Remove a database, and the grants on its schemas and tables: another database can get the name."""
    grants, store = services.access.store.snapshot().grants, services.catalog.store
    kinds: tuple[ObjectKind, ...] = ("TABLE", "SCHEMA")
    for kind in kinds:
        gone = {(one.schema, one.name) for one in grants if one.kind == kind and is_of(database.name, one.schema)}
        if gone:
            services.access.store.forget(kind, gone)
    store.attached.remove(database.name)
    store.put_attached(database.name, ())
    database.close()


def _attach(name: str, statement: Statement, services: Services) -> None:
    store = services.catalog.store
    if not _NAME.fullmatch(name) or name.startswith("pg_"):
        raise InvalidInputError(
            f"the name {name[:40]!r} cannot name a database: write small letters, digits and _, a letter first"
        )
    former = store.attached.all.get(name)
    if former is not None and statement.exists_ok:
        return
    if former is not None and (name in store.attached.configured or not statement.or_replace):
        raise InvalidInputError(f"the database {name!r} is attached: write DETACH {name} first, or choose another name")
    if name in _TAKEN or (former is None and any(is_of(name, schema) for schema in store.schemas())):
        raise InvalidInputError(f"the name {name!r} is taken: choose another name for the database")
    with kept_if_done():
        database = AttachedDatabase(name, _config(statement))
        _ = database.source()  # which notes its secrets
    if former is not None:
        _probe(database)
        _detach(former, services)
    store.attached.add(database)
    try:
        read_tables(store, database)
    except BaseException:
        store.attached.remove(name)
        database.close()
        raise


def _probe(database: AttachedDatabase) -> None:
    """Read the tables of a database that is not attached yet, so that a failure does not touch the former one."""
    try:
        with database.lock:
            database.tables()
    except BaseException:
        database.close()
        raise
    database.expire()


def _config(statement: Statement) -> AttachedConfig:
    """Return the configuration that a statement gives.

    Raises:
        InvalidInputError: an option is wrong.
    """
    given: dict[str, Any] = dict(statement.options)
    for option, kind in _NUMBERS.items():
        if option in given:
            try:
                given[option] = kind(given[option])
            except ValueError as error:
                raise InvalidInputError(f"the option {option} needs a number") from error
    try:
        return AttachedConfig(statement.value or "", **given)
    except ConfigError as error:
        raise InvalidInputError(str(error)) from error
