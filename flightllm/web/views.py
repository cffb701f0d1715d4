"""The web page's views, except query results, as JSON values. A view shows only data that its user can see."""

from datetime import datetime
from typing import Any

import flightllm
from flightllm.client import BOOKKEEPING
from flightllm.common.names import DEFAULT_SCHEMA, TableName, is_temporary, quoted
from flightllm.errors import PermissionDeniedError
from flightllm.flight.core import Core
from flightllm.observe.query_record import calls_of
from flightllm.session.database import Database
from flightllm.web.calls import WebCall
from flightllm.web.engine_load import prompts_in_flight
from flightllm.web.statements import MOST_ROWS

_MOST_QUERIES = 200
"""The largest number of ended queries in the list."""
_MOST_TEXT = 300
"""The largest number of characters of a text in the list."""
_OPEN = ("planned", "running")
_OBJECTS = ("vector_indexes", "models", "prompts")


class Views:
    """The views of a server. Each call takes a snapshot."""

    def __init__(self, database: Database, core: Core) -> None:
        self._database = database
        self._core = core

    def me(self, call: WebCall) -> dict[str, Any]:
        """Return the user and the user's role."""
        who = call.principal
        return {
            "user": who.name,
            "role": who.role,
            "groups": sorted(who.groups),
            "admin": who.is_admin,
            "open": self._core.login.is_open,
            "most_rows": MOST_ROWS,
        }

    def queries(self, call: WebCall) -> dict[str, Any]:
        """Return the user's running statements and last ended statements, the newest first.

        An admin gets the statements of all users.
        """
        rows = [row for row in self._system(call, "queries") if not row["sql"].startswith(BOOKKEEPING.strip())]
        rows.reverse()
        running = [_query(row) for row in rows if row["status"] in _OPEN]
        ended = [_query(row) for row in rows if row["status"] not in _OPEN]
        return {"running": running, "ended": ended[:_MOST_QUERIES], "left_out": max(0, len(ended) - _MOST_QUERIES)}

    def query(self, call: WebCall, query_id: str) -> dict[str, Any]:
        """Return the full record of one statement, with its AI calls and the rows of each part.

        Raises:
            NotFoundError: the user has no statement with this id.
        """
        self._core.query_of(call.principal, query_id)
        record = self._database.queries.get(query_id)
        row, calls = record.row(), record.call_rows()
        return {**_plain(row), **calls_of(row), "ai_calls": calls, "parts": record.part_rows()}

    def objects(self, call: WebCall) -> dict[str, Any]:
        """Return the AI functions, and the schemas, tables, indexes, models and prompts that the user can see.

        The temporary tables of the login's session are among the tables, in a schema that is shown as `(temporary)`.
        """
        session = call.opened_session(self._core)
        catalog = self._database.catalog_of(call.principal) if session is None else session.catalog
        tables = [
            {
                "schema": _shown(info.name.schema),
                "temporary": is_temporary(info.name.schema),
                "name": info.name.name,
                "sql": _sql(info.name),
                "type": info.type,
                "columns": [{"name": f.name, "type": str(f.type), "nullable": f.nullable} for f in info.schema],
            }
            for info in catalog.tables()
        ]
        return {
            "schemas": [_shown(schema) for schema in catalog.schemas()],
            "tables": tables,
            "functions": [function.name for function in self._database.functions],
            **{name: [_plain(row) for row in self._system(call, name)] for name in _OBJECTS},
        }

    def load(self, call: WebCall) -> dict[str, Any]:
        """Return the load of the server and its engine.

        Raises:
            PermissionDeniedError: the user is not an admin.
        """
        if not call.principal.is_admin:
            raise PermissionDeniedError(
                f"the engine's load requires the admin role; {call.principal.name!r} does not have it"
            )
        database, load = self._database, self._core.load()
        cache, totals = database.cache.stats(), database.queries.totals()
        return {
            "version": flightllm.__version__,
            "engine": {
                "name": database.engine.name,
                "up": database.engine_up,
                "in_flight": prompts_in_flight(database),
                "max_in_flight": database.config.engine.max_in_flight,
            },
            "statements": {
                "running": load.running,
                "left_behind": load.left_behind,
                "isolated": database.isolated,
                "places": load.places,
                "queued": load.queued,
            },
            "draining": load.draining,
            "totals": {**totals.sums, "cost": totals.cost, "ended": sum(totals.statements.values())},
            "cache": {name: getattr(cache, name) for name in ("entries", "bytes", "max_bytes", "hits", "misses")},
            "refusals": {limit: count for limit, count in load.refusals.items() if count},
            "sessions": [_plain(row) for row in self._system(call, "sessions")],
        }

    def _system(self, call: WebCall, name: str) -> list[dict[str, Any]]:
        """Return the rows of a system table that the user can see.

        No SQL statement runs, because it would appear in the list of queries.
        """
        rows: list[dict[str, Any]] = self._database.catalog_of(call.principal).system_rows(name).to_pylist()
        return rows


def _shown(schema: str) -> str:
    return "(temporary)" if is_temporary(schema) else schema


def _sql(name: TableName) -> str:
    """Return a name as SQL text: the shortest form, quoted where needed."""
    short = name.schema == DEFAULT_SCHEMA or is_temporary(name.schema)
    return quoted(name.name) if short else f"{quoted(name.schema)}.{quoted(name.name)}"


def _query(row: dict[str, Any]) -> dict[str, Any]:
    short = {name: _cut(row[name]) for name in ("sql", "error")}
    return {**_plain(row), **short, **calls_of(row)}


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
