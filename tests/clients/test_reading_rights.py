"""Who reads what, by each route: every kind of object that can be read, for users of every role and for nobody."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import pyarrow as pa
import pytest
from datafusion import SessionContext
from datafusion.substrait import Producer
from pyarrow import flight

from flightllm.access.store import User
from flightllm.common.names import STORED_SUFFIX
from flightllm.config import Config, EmbeddingConfig, EngineConfig, ServerConfig
from flightllm.flight.messages import pack, sql_message, unpack
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from flightllm.web.http_server import HttpServer
from tests.flight_messages import descriptor, fetch, prepare, prepared, put, query
from tests.web.support import PAGE, Visitor

WHO = ("root", "ann", "rob", "eve", "nobody")
"""An admin, a user and a reader with grants, a reader without, and who shows nothing."""
ALL, GRANTED, ADMIN = frozenset(WHO[:4]), frozenset(WHO[:3]), frozenset(WHO[:1])
SEARCHES = find_spec("faiss") is not None and find_spec("tantivy") is not None
"""Whether the extra 'vector' is installed."""
OBJECTS = {
    "table": ("SELECT a, b FROM open_t", GRANTED),
    "table not granted": ("SELECT a, b FROM shut_t", ADMIN),
    "table of which a part is seen": ("SELECT a, b FROM part_t", GRANTED),
    "view": ("SELECT a, b FROM open_v", GRANTED),
    "view of which a part is seen": ("SELECT a, b FROM part_v", GRANTED),
    "view not granted": ("SELECT a, b FROM shut_v", ADMIN),
    "view of what is not granted": ("SELECT a, b FROM half_v", ADMIN),
    "view with AI calls": ("SELECT a, said FROM open_ai_v", GRANTED),
    "view with AI calls not granted": ("SELECT a, said FROM shut_ai_v", ADMIN),
    "view with AI calls of what is not granted": ("SELECT a, said FROM half_ai_v", ADMIN),
    "model": ("SELECT ai_gen('Say', model => open_m) AS a", GRANTED),
    "model not granted": ("SELECT ai_gen('Say', model => shut_m) AS a", ADMIN),
    "prompt": ("SELECT ai_gen(b, prompt => open_p) AS a FROM open_t", GRANTED),
    "prompt not granted": ("SELECT ai_gen(b, prompt => shut_p) AS a FROM open_t", ADMIN),
    "system table": ("SELECT name FROM system.settings", ALL),
    "list of tables": ("SELECT table_name FROM information_schema.tables", ALL),
}
if SEARCHES:
    OBJECTS |= {
        "index": ("SELECT a, score FROM vector_search('open_i', 'text')", GRANTED),
        "index of what is not granted": ("SELECT a, score FROM vector_search('shut_i', 'text')", ADMIN),
        "index of what is seen in part": ("SELECT a, score FROM vector_search('part_i', 'text')", ADMIN),
    }
PART = [(1, "*"), (2, "*")]
"""What all but admins see of `part_t`."""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open a database with objects of each kind: granted, not granted, and granted in part."""
    folder = tmp_path_factory.mktemp("data")
    database = Database.open(Config(engine=EngineConfig("fake"), embedding=EmbeddingConfig("fake"), data_folder=folder))
    admin, store = database.session(), database.access.store
    for user in (User("root", "admin"), User("ann", "user"), User("rob", "readonly"), User("eve", "readonly")):
        store.add_user(user)
    for name in ("open", "shut", "part"):
        admin.update(f"CREATE TABLE {name}_t AS SELECT value AS a, 'text' AS b FROM generate_series(1, 5)")
        if SEARCHES:
            admin.update(f"CREATE VECTOR INDEX {name}_i ON {name}_t(b)")
    for name, table in (("open", "open_t"), ("part", "part_t"), ("shut", "open_t"), ("half", "shut_t")):
        admin.update(f"CREATE VIEW {name}_v AS SELECT * FROM {table}")
        admin.update(f"CREATE VIEW {name}_ai_v AS SELECT a, ai_gen('Say', b) AS said FROM {table}")
    for name in ("open", "shut"):
        admin.update(f"CREATE MODEL {name}_m OPTIONS (engine 'fake')")
        admin.update(f"CREATE PROMPT {name}_p AS 'What is it?'")
    for name in ("ann", "rob"):
        for table in ("open_t", "part_t", "open_v", "part_v", "half_v", "open_ai_v", "part_ai_v", "half_ai_v"):
            admin.update(f"GRANT SELECT ON {table} TO {name}")
        admin.update(f"GRANT USAGE ON MODEL open_m TO {name}")
        admin.update(f"GRANT USAGE ON PROMPT open_p TO {name}")
        admin.update(f"CREATE ROW FILTER ON part_t TO {name} AS a < 3")
        admin.update(f"CREATE COLUMN MASK ON part_t(b) TO {name} AS '*'")
    admin.update("GRANT CREATE ON SCHEMA public TO ann")
    yield database
    database.close()


class _Token(flight.ClientMiddlewareFactory, flight.ClientMiddleware):
    """Sends a bearer token with each call."""

    def __init__(self, token: str) -> None:
        self._token = token

    def start_call(self, _info: object) -> Any:
        return self

    def sending_headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._token}"} if self._token else {}


@dataclass(frozen=True)
class Caller:
    """One who calls the server, over Flight and on its page."""

    flight: flight.FlightClient
    page: Visitor


@pytest.fixture(scope="module")
def callers(database: Database) -> Iterator[dict[str, Caller]]:
    """Run a server and its page, and return everybody who calls it."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), login=database.access.login)
    found = dict[str, Caller]()
    with HttpServer(PAGE, database, server) as page:
        for name in WHO:
            token = "" if name == "nobody" else database.access.store.add_token(name)
            found[name] = Caller(flight.connect(server.uri, middleware=[_Token(token)]), Visitor(page.uri or ""))
            if token:
                assert found[name].page.post("/api/sign-in", {"user": name, "password": token})[0] == 200
        yield found
    for caller in found.values():
        caller.flight.close()
    server.drain(0)


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def _query(caller: Caller, sql: str) -> list[tuple[Any, ...]]:
    return _rows(fetch(caller.flight, query(sql)))


def _prepared(caller: Caller, sql: str) -> list[tuple[Any, ...]]:
    handle = prepare(caller.flight, f"SELECT * FROM ({sql}) AS q WHERE 1 = ?").prepared_statement_handle
    put(caller.flight, prepared(handle), pa.table({"0": [1]}))
    return _rows(fetch(caller.flight, prepared(handle)))


def _page(caller: Caller, sql: str) -> list[tuple[Any, ...]]:
    own = {"content-type": "application/json", "origin": f"http://{caller.page.host}"}
    if caller.page.get("/api/me")[0] == 401:
        status, answer = caller.page.post("/api/statements", {"sql": sql}, **own)
        assert (status, answer["error"]["sqlstate"]) == (401, "28000")
        raise flight.FlightUnauthenticatedError(answer["error"]["message"])
    events = caller.page.run(sql)
    if events[-1]["event"] == "error":
        assert events[-1]["sqlstate"] in {"42501", "42P01"}, events[-1]
        raise flight.FlightUnauthorizedError(events[-1]["message"])
    return sorted(
        (int(a), *rest) if a.isdecimal() else (a, *rest)
        for e in events
        if e["event"] == "rows"
        for a, *rest in e["rows"]
    )


READING: dict[str, Callable[[Caller, str], list[tuple[Any, ...]]]] = {
    "query": _query,
    "subquery": lambda caller, sql: _query(caller, f"WITH w AS ({sql}) SELECT * FROM w"),
    "under an AI call": lambda caller, sql: _query(caller, f"SELECT q.*, ai_gen('Say', q.*) AS g FROM ({sql}) AS q"),
    "prepared": _prepared,
    "page": _page,
}
"""Routes that return rows."""
LOOKING: dict[str, Callable[[Caller, str], Any]] = {
    "EXPLAIN": lambda caller, sql: _query(caller, f"EXPLAIN {sql}"),
    "EXPLAIN ANALYZE": lambda caller, sql: _query(caller, f"EXPLAIN ANALYZE {sql}"),
    "GetFlightInfo": lambda caller, sql: caller.flight.get_flight_info(query(sql)),
    "GetSchema": lambda caller, sql: caller.flight.get_schema(query(sql)),
    "Prepare": lambda caller, sql: prepare(caller.flight, sql),
    "EXPLAIN on the page": lambda caller, sql: _page(caller, f"EXPLAIN {sql}"),
}
"""Routes that tell something else."""


_REFUSED = re.compile("Unauthorized|Unauthenticated|not granted to you")
"""In the name of the error's class, or, as GetSchema's has another one, in its text; the last for hidden tables."""


def _allowed(run: Callable[[Caller, str], Any], caller: Caller, sql: str) -> bool:
    try:
        run(caller, sql)
    except (pa.ArrowException, OSError) as error:
        if not _REFUSED.search(repr(error)):
            raise
        return False
    return True


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("route", [*READING, *LOOKING])
def test_reading(callers: dict[str, Caller], route: str, who: str) -> None:
    """By every route one reads what is granted, and no object more."""
    run = {**READING, **LOOKING}[route]
    found = {name for name, (sql, _) in OBJECTS.items() if _allowed(run, callers[who], sql)}
    assert found == {name for name, (_, readers) in OBJECTS.items() if who in readers}


@pytest.mark.parametrize("who", ["ann", "rob"])
@pytest.mark.parametrize("name", ["part_t", "part_v"])
@pytest.mark.parametrize("route", [route for route in READING if route != "under an AI call"])
def test_a_part_of_a_table(callers: dict[str, Caller], route: str, name: str, who: str) -> None:
    """By every route one sees the same rows of a restricted table, and the same values."""
    assert READING[route](callers[who], f"SELECT a, b FROM {name}") == PART
    assert len(READING[route](callers["root"], f"SELECT a, b FROM {name}")) == 5


SEEN = {
    "root": {f"{name}_{kind}" for name in ("open", "shut", "part", "half") for kind in ("t", "v", "ai_v")} - {"half_t"},
    "ann": {"open_t", "part_t", "open_v", "part_v", "open_ai_v", "part_ai_v", "half_ai_v"},
    "rob": {"open_t", "part_t", "open_v", "part_v", "open_ai_v", "part_ai_v", "half_ai_v"},
    "eve": set[str](),
}


def _listed(table: pa.Table) -> set[str]:
    rows = [row for row in table.to_pylist() if row.get("db_schema_name", row.get("table_schema")) == "public"]
    return {row["table_name"] for row in rows}


@pytest.mark.parametrize("who", SEEN)
def test_lists(callers: dict[str, Caller], who: str) -> None:
    """Metadata, information_schema, system tables and the page list what may be read, and used."""
    caller, tables = callers[who], SEEN[who]
    assert _listed(fetch(caller.flight, descriptor("CommandGetTables", include_schema=True))) == tables
    for name in ("tables", "columns", "views"):
        listed = _listed(fetch(caller.flight, query(f"SELECT * FROM information_schema.{name}")))
        assert listed <= tables
        assert listed == tables or name == "views"
    objects = caller.page.get("/api/objects")[1]
    assert {table["name"] for table in objects["tables"] if table["schema"] == "public"} == tables
    granted = {"open", "shut"} if who == "root" else {"open"} if tables else set()
    for kind, suffix in (("models", "_m"), ("prompts", "_p")):
        expected = {name + suffix for name in granted}
        assert {row["name"] for row in objects[kind]} - {"default"} == expected
        assert {row[0] for row in _query(caller, f"SELECT name FROM system.{kind}")} - {"default"} == expected
    if SEARCHES:
        listed = {row[0] for row in _query(caller, "SELECT name FROM system.vector_indexes")}
        assert listed == {f"{name[:-2]}_i" for name in tables if name in {"open_t", "shut_t", "part_t"}}


@pytest.mark.parametrize(
    "name", ["Catalogs", "DbSchemas", "Tables", "TableTypes", "SqlInfo", "XdbcTypeInfo", "PrimaryKeys"]
)
def test_metadata_for_nobody(callers: dict[str, Caller], name: str) -> None:
    """Whoever shows nothing is told nothing, by no command."""
    command, nobody = descriptor(f"CommandGet{name}"), callers["nobody"].flight
    with pytest.raises(OSError, match="requires a login"):
        nobody.get_schema(command)
    with pytest.raises(flight.FlightUnauthenticatedError):
        nobody.get_flight_info(command)
    with pytest.raises(flight.FlightUnauthenticatedError):
        nobody.do_get(flight.Ticket(command.command)).read_all()


def _plan(table: str, select: str = "a, b") -> bytes:
    """Return the plan that a client makes which knows the tables' columns, with a projection and a filter."""
    context = SessionContext()
    empty = pa.RecordBatch.from_pydict({"b": ["x"], "a": [1]}).select(["a", "b"]).slice(0, 0)
    context.register_record_batches(f'"{table}"', [[empty]])
    logical = context.sql(f'SELECT {select} FROM "{table}" WHERE a < 5').optimized_logical_plan()
    return bytes(Producer.to_substrait_plan(logical, context).encode())


PLANNED = {
    "open_t": GRANTED,
    "shut_t": ADMIN,
    "part_t": GRANTED,
    "open_v": GRANTED,
    "part_v": GRANTED,
    "shut_v": ADMIN,
    "half_v": ADMIN,
}


def _planned(caller: Caller, table: str) -> list[tuple[Any, ...]]:
    return _rows(fetch(caller.flight, descriptor("CommandStatementSubstraitPlan", plan={"plan": _plan(table)})))


def _prepared_plan(caller: Caller, table: str) -> list[tuple[Any, ...]]:
    body = pack(sql_message("ActionCreatePreparedSubstraitPlanRequest", plan={"plan": _plan(table)}))
    (result,) = caller.flight.do_action(flight.Action("CreatePreparedSubstraitPlan", body))
    handle = unpack(result.body.to_pybytes()).message.prepared_statement_handle
    return _rows(fetch(caller.flight, prepared(handle)))


def _schema_of_plan(caller: Caller, table: str) -> None:
    caller.flight.get_schema(descriptor("CommandStatementSubstraitPlan", plan={"plan": _plan(table)}))


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("run", [_planned, _prepared_plan, _schema_of_plan])
def test_substrait(callers: dict[str, Caller], run: Callable[[Caller, str], Any], who: str) -> None:
    """Plans read what SQL reads."""
    found = {table for table in PLANNED if _allowed(run, callers[who], table)}
    assert found == {table for table, readers in PLANNED.items() if who in readers}


@pytest.mark.parametrize("who", ["ann", "rob"])
@pytest.mark.parametrize("run", [_planned, _prepared_plan])
@pytest.mark.parametrize("name", ["part_t", "part_v"])
def test_a_part_of_a_table_by_substrait(
    callers: dict[str, Caller], name: str, run: Callable[[Caller, str], Any], who: str
) -> None:
    """A plan sees what SQL sees of a restricted table, and has no name for the rest."""
    assert run(callers[who], name) == PART
    with pytest.raises(KeyError, match="no table"):
        run(callers[who], f"part_t{STORED_SUFFIX}")
