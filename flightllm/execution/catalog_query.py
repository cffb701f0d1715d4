"""A query that asks only the catalog of PostgreSQL's clients: `pg_catalog` and `information_schema`."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial

import pyarrow as pa

from flightllm.catalog.column_defaults import defaults_of
from flightllm.catalog.entries import Entry
from flightllm.common.names import DEFAULT_SCHEMA, SYSTEM_SCHEMA, TableName, is_temporary
from flightllm.common.principal import LOCAL
from flightllm.config.session_settings import Settings
from flightllm.datafusion.run import Batches
from flightllm.errors import SqlError
from flightllm.execution.cancel_token import stopped
from flightllm.execution.context import Services
from flightllm.functions.base import AIFunction, ScalarFunction
from flightllm.observe.query_record import QueryRecord
from flightllm.pg_catalog.engine import Engine
from flightllm.pg_catalog.facts import FULL_VERSION, SERVER_VERSION, Called, Facts, Seen, Session
from flightllm.pg_catalog.functions import function_table
from flightllm.pg_catalog.kept import KeptCatalog
from flightllm.pg_catalog.parsing import read
from flightllm.pg_catalog.rows import Rows, process_number
from flightllm.pg_catalog.translation import translate
from flightllm.pg_catalog.types import shown_type
from flightllm.sql.client_parameters import DEFAULTS
from flightllm.sql.grants import PRIVILEGES
from flightllm.sql.statement import CatalogPlace

_SETTINGS: Mapping[str, str] = {**DEFAULTS, "server_version": SERVER_VERSION}
"""The parameters of clients of other protocols."""


class CatalogQuery:
    """A query about the catalog; an engine of its own runs it, because DataFusion refuses many such queries."""

    def __init__(self, sql: str, place: CatalogPlace, services: Services, settings: Settings) -> None:
        """Plan a query whose parameters are bound.

        Raises:
            FlightLLMError: the query is wrong.
        """
        asked = read(sql)
        if asked is None or asked.mixed:
            raise SqlError("the query does not ask only the catalog")
        kept = kept_catalog(services, place)
        self._translated = translate(asked.tree, function_table())
        session = _session(services, place, settings)
        self._open = partial(Engine, kept.rows, session, self._translated, services.config.limits.memory_bytes)
        self.schema = kept.schema(self._translated.shape, self._described)

    def _described(self) -> pa.Schema:
        with closing(self._open()) as engine:
            return engine.schema(stopped)

    def run(self, record: QueryRecord) -> Batches:
        """Yield the rows, from an engine of their own: many described statements never run."""
        with closing(self._open()) as engine:
            yield from engine.run(self.schema, record.cancelled.is_set)

    def explain(self) -> list[tuple[str, str]]:
        """Return the query as the engine gets it."""
        return [("Catalog query", self._translated.sql)]


def kept_catalog(services: Services, place: CatalogPlace) -> KeptCatalog:
    """Return the catalog as the session's user sees it."""
    temporary = next(filter(is_temporary, place.path), "")
    functions = tuple((one.name, one.version) for one in services.objects.functions())
    key = (services.rights, temporary, functions)
    return services.pg_catalogs.of(key, services.catalog.store.entries, lambda: Rows(_facts(services)))


def _facts(services: Services) -> Facts:
    catalog, entries = services.catalog, services.catalog.entries
    tables = []
    for info in catalog.tables():
        seen = Seen(info.name, info.type != "BASE TABLE", info.schema, info.keys, LOCAL.name)
        entry = entries.get(info.name)
        tables.append(seen if entry is None else _with_entry(seen, entry, services))
    schemas = [name for name in catalog.schemas() if name != "information_schema"]
    functions = [_called(function) for function in services.functions]
    may_use = services.rights.may_use
    functions += [
        Called(one.name, ", ".join(one.parameters), one.returns, one.body)
        for one in services.objects.functions()
        if may_use("FUNCTION", one.name, one.owner)
    ]
    return Facts(schemas, tables, functions)


def _called(function: AIFunction | ScalarFunction) -> Called:
    if isinstance(function, AIFunction):
        arguments = function.usage().removeprefix(f"{function.name}(").removesuffix(")")
        result = function.returns
    else:
        arguments = ", ".join(map(shown_type, function.arguments))
        result = shown_type(function.output)
    return Called(function.name, arguments, result, function.summary)


def _with_entry(seen: Seen, entry: Entry, services: Services) -> Seen:
    """Add the owner, the defaults and the size of a table; the size of a table with hidden rows stays hidden."""
    rights = services.rights
    mine = rights.unlimited or entry.owner == rights.principal.name
    files = entry.rows.files if entry.rows is not None and not rights.is_restricted(entry.name) else ()
    return replace(
        seen,
        owner=entry.owner,
        defaults=defaults_of(entry),
        query=entry.query if mine and entry.is_view else None,
        size=sum(file.bytes for file in files),
        rows=sum(file.rows for file in files) if files else -1,
    )


def _session(services: Services, place: CatalogPlace, settings: Settings) -> Session:
    rights, catalog = services.rights, services.catalog

    def rows_of(name: str) -> list[Mapping[str, object]]:
        if name not in (catalog.store.system.schemas if catalog.store.system is not None else ()):
            return []
        found: list[Mapping[str, object]] = catalog.system_rows(name).to_pylist()
        return found

    def may(privilege: str, what: TableName | str) -> bool:
        if isinstance(what, str):
            return rights.may_create(what) if what else rights.unlimited
        entry = catalog.entries.get(what)
        if what.schema == SYSTEM_SCHEMA:
            return privilege == "SELECT"
        for known in PRIVILEGES["TABLE"]:
            if known == privilege:
                return rights.may(known, what, entry.owner if entry is not None else None)
        return rights.unlimited

    def cancel(process: int) -> bool:
        mine = rights.principal.name
        queries = [one for one in services.running() if process_number(one.session_id) == process]
        allowed = [one for one in queries if rights.unlimited or one.user == mine]
        for query in allowed:
            query.cancel()
        return bool(allowed)

    path = place.path or (DEFAULT_SCHEMA,)
    return Session(
        user=rights.principal.name,
        path=[name for name in path if not is_temporary(name)],
        version=FULL_VERSION,
        process=process_number(place.session_id),
        roles=lambda: rows_of("users"),
        grants=lambda: rows_of("grants"),
        sessions=lambda: rows_of("sessions"),
        settings=lambda: {
            **(_SETTINGS if place.parameters is None else place.parameters.present()),
            "search_path": ", ".join(path),
            **{f"flightllm.{name}": text for name, text in settings.as_text().items()},
        },
        may=may,
        cancel=cancel,
        set_parameter=lambda name, value: place.parameters is not None and place.parameters.set(name, value),
    )
