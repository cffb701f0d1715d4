"""Who may do what, by each route: real clients of a real server with users of every role."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import adbc_driver_manager as manager
import pyarrow as pa
import pytest
from pyarrow import flight

from flightllm.access.store import User
from flightllm.config import Config, EmbeddingConfig, EngineConfig, ServerConfig, StorageConfig
from flightllm.flight.messages import flight_message, pack, parse_flight, sql_message
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.sources import sqlite_file

SMALL = pa.table({"a": [1]})


Connect = Callable[[str], flight_sql.Connection]


@contextmanager
def _opened(tmp_path: Path) -> Iterator[Database]:
    """Open a database with users of each role, a table that is granted, one that is not, and one that is in part."""
    storage = StorageConfig((tmp_path / "files",))
    database = Database.open(
        Config(
            engine=EngineConfig("fake"),
            embedding=EmbeddingConfig("fake"),
            storage=storage,
            data_folder=tmp_path / "data",
        )
    )
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "x.csv").write_text("a\n1\n")
    admin, store = database.session(), database.access.store
    for name in ("open_t", "shut_t", "part_t"):
        admin.update(f"CREATE TABLE {name} AS SELECT value AS a, 'text' AS b FROM generate_series(1, 5)")
    admin.update("CREATE SCHEMA s")
    for user in (User("root", "admin"), User("ann", "user"), User("rob", "readonly"), User("eve", "readonly")):
        store.add_user(user)
    admin.update("GRANT SELECT, INSERT, DELETE ON open_t TO ann")
    admin.update("GRANT CREATE ON SCHEMA public TO ann")
    admin.update("GRANT ALL ON open_t TO rob")
    for name in ("ann", "rob"):
        admin.update(f"GRANT ALL ON part_t TO {name}")
        admin.update(f"CREATE ROW FILTER ON part_t TO {name} AS a < 3")
    admin.update("CREATE VIEW open_v AS SELECT * FROM open_t")
    admin.update("GRANT ALL ON open_v TO ann")
    for name in ("open", "shut"):
        admin.update(f"CREATE MODEL {name}_m OPTIONS (engine 'fake')")
        admin.update(f"CREATE PROMPT {name}_p AS 'What is it?'")
    for name in ("ann", "rob"):
        admin.update(f"GRANT USAGE ON MODEL open_m TO {name}")
        admin.update(f"GRANT USAGE ON PROMPT open_p TO {name}")
    _attach(admin, tmp_path)
    yield database
    database.close()


def _attach(admin: Session, tmp_path: Path) -> None:
    """Attach a file with a table that is granted, one that is not, and one that is in part; and one without grants."""
    made = [f"CREATE TABLE {name} (a INTEGER, b TEXT)" for name in "ohp"]
    made += [f"INSERT INTO {name} VALUES (1, 'text'), (5, 'x')" for name in "ohp"]
    path = sqlite_file(tmp_path / "attached.sqlite", *made, people=False)
    admin.update(f"ATTACH '{path}' AS crm")
    admin.update(f"ATTACH '{path}' AS erp")
    for name in ("ann", "rob"):
        admin.update(f"GRANT ALL ON crm.o TO {name}")
        admin.update(f"GRANT SELECT ON crm.main.p TO {name}")
        admin.update(f"CREATE ROW FILTER ON crm.p TO {name} AS a < 3")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database; see `_opened`."""
    with _opened(tmp_path) as database:
        yield database


@pytest.fixture
def server(database: Database) -> Iterator[FlightSqlServer]:
    """Run a server."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), login=database.access.login)
    yield server
    server.drain(0)


@contextmanager
def _connecting(server: FlightSqlServer, database: Database) -> Iterator[Connect]:
    opened: list[flight_sql.Connection] = []

    def log_in(name: str) -> flight_sql.Connection:
        header = f"Bearer {database.access.store.add_token(name)}"
        kwargs = {"adbc.flight.sql.authorization_header": header}
        opened.append(flight_sql.connect(server.uri, db_kwargs=kwargs, autocommit=True))
        return opened[-1]

    yield log_in
    for connection in opened:
        connection.close()


@pytest.fixture
def connect(server: FlightSqlServer, database: Database) -> Iterator[Connect]:
    """Return how to log in."""
    with _connecting(server, database) as connect:
        yield connect


@pytest.fixture(scope="module")
def connect_unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connect]:
    """Return how to log in to one server for all that only reads or is refused, and so changes nothing."""
    with _opened(tmp_path_factory.mktemp("unchanged")) as database:
        server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), login=database.access.login)
        with _connecting(server, database) as connect:
            yield connect
        server.drain(0)


def _query(sql: str) -> Callable[[Any], Any]:
    def run(connection: flight_sql.Connection) -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            cursor.fetchall()

    return run


def _prepared(sql: str) -> Callable[[Any], Any]:
    def run(connection: flight_sql.Connection) -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql, (1,))
            cursor.fetchall()

    return run


def _update(sql: str) -> Callable[[Any], Any]:
    def run(connection: flight_sql.Connection) -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql)

    return run


def _ingest(table: str, mode: Any, schema: str | None = None) -> Callable[[Any], Any]:
    def run(connection: flight_sql.Connection) -> None:
        with connection.cursor() as cursor:
            rows = SMALL if mode != "append" else pa.table({"a": [1], "b": ["x"]})
            cursor.adbc_ingest(table, rows, mode=mode, db_schema_name=schema)

    return run


READING: dict[str, tuple[Callable[[Any], Any], str]] = {
    "query granted": (_query("SELECT * FROM open_t"), "root ann rob"),
    "query not granted": (_query("SELECT * FROM shut_t"), "root"),
    "join with one not granted": (_query("SELECT 1 FROM open_t JOIN shut_t USING (a)"), "root"),
    "subquery": (_query("SELECT 1 WHERE EXISTS (SELECT 1 FROM shut_t)"), "root"),
    "AI call": (_query("SELECT ai_gen('Say', b) FROM open_t"), "root ann rob"),
    "AI call not granted": (_query("SELECT ai_gen('Say', b) FROM shut_t"), "root"),
    "AI call on no table": (_query("SELECT ai_gen('Say')"), "root ann rob eve"),
    "model granted": (_query("SELECT ai_gen('Say', b, model => open_m) FROM open_t"), "root ann rob"),
    "model not granted": (_query("SELECT ai_gen('Say', b, model => shut_m) FROM open_t"), "root"),
    "explain with a model": (_query("EXPLAIN SELECT ai_gen('Say', model => shut_m)"), "root"),
    "prepared with a model": (_prepared("SELECT ai_gen('Say', model => shut_m) WHERE 1 = ?"), "root"),
    "prompt granted": (_query("SELECT ai_gen(b, prompt => open_p) FROM open_t"), "root ann rob"),
    "prompt not granted": (_query("SELECT ai_gen(b, prompt => 'shut_p@1') FROM open_t"), "root"),
    "explain": (_query("EXPLAIN SELECT ai_filter('Fine?', b) FROM shut_t"), "root"),
    "explain analyze": (_query("EXPLAIN ANALYZE SELECT * FROM shut_t"), "root"),
    "describe": (_query("DESCRIBE shut_t"), "root"),
    "table": (_query("TABLE shut_t"), "root"),
    "prepared granted": (_prepared("SELECT * FROM open_t WHERE a = ?"), "root ann rob"),
    "prepared not granted": (_prepared("SELECT * FROM shut_t WHERE a = ?"), "root"),
    "schema of a table": (lambda c: c.adbc_get_table_schema("shut_t"), "root"),
    "attached": (_query("SELECT * FROM crm.o JOIN crm.main.p USING (a)"), "root ann rob"),
    "attached not granted": (_query("SELECT * FROM crm.h"), "root"),
    "attached by its schema": (_query('SELECT * FROM "crm.main".h'), "root"),
    "attached, without any grant": (_query("SELECT * FROM erp.o"), "root"),
    "attached, beside one that is granted": (_query("SELECT 1 FROM crm.o WHERE EXISTS (SELECT 1 FROM crm.h)"), "root"),
    "AI call on attached": (_query("SELECT ai_gen('Say', b) FROM crm.p"), "root ann rob"),
    "AI call on attached not granted": (_query("SELECT ai_gen('Say', b) FROM crm.h"), "root"),
    "explain of attached": (_query("EXPLAIN SELECT ai_filter('Fine?', b) FROM crm.h"), "root"),
    "describe attached": (_query("DESCRIBE crm.h"), "root"),
    "prepared on attached": (_prepared("SELECT * FROM erp.main.h WHERE a = ?"), "root"),
    "schema of an attached table": (lambda c: c.adbc_get_table_schema("h", db_schema_filter="crm.main"), "root"),
    "use of an attached schema": (_update("USE erp"), "root"),
    "settings": (_update("SET flightllm.cache = 'off'"), "root ann rob eve"),
    "file": (_query("SELECT * FROM '/etc/passwd'"), ""),
}
"""The actions that change only a session, by name: how a client does them, and which roles can."""
CHANGING: dict[str, tuple[Callable[[Any], Any], str]] = {
    "view with a model": (_update("CREATE VIEW new_v AS SELECT ai_gen('Say', model => shut_m) AS a"), "root"),
    "create model": (_update("CREATE MODEL new_m OPTIONS (engine 'fake')"), "root"),
    "replace model": (_update("CREATE OR REPLACE MODEL open_m OPTIONS (engine 'fake')"), "root"),
    "drop model": (_update("DROP MODEL open_m"), "root"),
    "create prompt": (_update("CREATE PROMPT new_p AS 'Who is it?'"), "root ann"),
    "replace prompt": (_update("CREATE OR REPLACE PROMPT open_p AS 'Who is it?'"), "root"),
    "drop prompt": (_update("DROP PROMPT open_p"), "root"),
    "prepared insert": (_prepared("INSERT INTO open_t VALUES (?, 'x')"), "root ann"),
    "insert": (_update("INSERT INTO open_t SELECT * FROM open_t"), "root ann"),
    "insert from one not granted": (_update("INSERT INTO open_t SELECT * FROM shut_t"), "root"),
    "insert into one not granted": (_update("INSERT INTO shut_t VALUES (1, 'x')"), "root"),
    "delete": (_update("DELETE FROM open_t WHERE a = 1"), "root ann"),
    "update": (_update("UPDATE open_t SET a = 1"), "root"),
    "prepared update": (_prepared("UPDATE open_t SET a = ?"), "root"),
    "prepared delete": (_prepared("DELETE FROM open_t WHERE a = ?"), "root ann"),
    "insert into a part": (_update("INSERT INTO part_t VALUES (1, 'x')"), "root ann"),
    "delete from a part": (_update("DELETE FROM part_t WHERE a = 1"), "root"),
    "update of a part": (_update("UPDATE part_t SET a = 1 WHERE a = 1"), "root"),
    "insert into a view": (_update("INSERT INTO open_v VALUES (1, 'x')"), ""),
    "delete from a view": (_update("DELETE FROM open_v"), ""),
    "insert into a system table": (_update("INSERT INTO system.users SELECT * FROM system.users"), ""),
    "drop a system table": (_update("DROP TABLE system.users"), ""),
    "drop": (_update("DROP TABLE open_t"), "root"),
    "create": (_update("CREATE TABLE new_t (a INT)"), "root ann"),
    "create as": (_update("CREATE TABLE new_t AS SELECT * FROM open_t"), "root ann"),
    "create as from one not granted": (_update("CREATE TABLE new_t AS SELECT * FROM shut_t"), "root"),
    "create or replace": (_update("CREATE OR REPLACE TABLE open_t AS SELECT 1 AS a"), "root"),
    "create elsewhere": (_update("CREATE TABLE s.new_t (a INT)"), "root"),
    "view": (_update("CREATE VIEW new_v AS SELECT * FROM open_t"), "root ann"),
    "view not granted": (_update("CREATE VIEW new_v AS SELECT * FROM shut_t"), "root"),
    "view with AI not granted": (_update("CREATE VIEW new_v AS SELECT ai_gen('Say', b) FROM shut_t"), "root"),
    "view of a part": (_update("CREATE VIEW new_v AS SELECT * FROM part_t"), "root ann"),
    "replace view": (_update("CREATE OR REPLACE VIEW open_v AS SELECT 1 AS a"), "root"),
    "drop view": (_update("DROP VIEW open_v"), "root"),
    "schema": (_update("CREATE SCHEMA new_s"), "root"),
    "drop schema": (_update("DROP SCHEMA s"), "root"),
    "index": (_update("DROP VECTOR INDEX IF EXISTS nothing"), "root ann rob eve"),
    "index on another's table": (_update("CREATE VECTOR INDEX new_i ON open_t(b)"), "root"),
    "index on what is seen in part": (_update("CREATE VECTOR INDEX new_i ON part_t(b)"), "root"),
    "index on a table not granted": (_update("CREATE VECTOR INDEX new_i ON shut_t(b)"), "root"),
    "grant": (_update("GRANT SELECT ON shut_t TO eve"), "root"),
    "revoke": (_update("REVOKE SELECT ON open_t FROM ann"), "root"),
    "policy": (_update("CREATE ROW FILTER ON open_t TO rob AS true"), "root"),
    "cache": (_update("TRUNCATE TABLE system.cache"), "root"),
    "ingest create": (_ingest("new_t", "create"), "root ann"),
    "ingest append": (_ingest("open_t", "append"), "root ann"),
    "ingest append not granted": (_ingest("shut_t", "append"), "root"),
    "ingest replace": (_ingest("open_t", "replace"), "root"),
    "ingest into a part": (_ingest("part_t", "append"), "root ann"),
    "ingest into a view": (_ingest("open_v", "append"), ""),
    "ingest in place of a view": (_ingest("open_v", "replace"), ""),
    "ingest into a system table": (_ingest("users", "append", "system"), ""),
    "external table": (_update("CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'"), ""),
    "attach": (_update("ATTACH ':memory:' AS other (TYPE sqlite)"), ""),
    "detach": (_update("DETACH crm"), "root"),
    "detach if it exists": (_update("DETACH IF EXISTS nothing"), "root"),
    "refresh of attached": (_update("REFRESH DATABASE crm"), "root"),
    "insert into attached": (_update("INSERT INTO crm.o VALUES (1, 'x')"), ""),
    "drop of attached": (_update("DROP TABLE crm.o"), ""),
    "view of attached": (_update("CREATE VIEW new_v AS SELECT * FROM crm.o"), "root ann"),
    "view of attached not granted": (_update("CREATE VIEW new_v AS SELECT * FROM crm.h"), "root"),
    "grant on attached": (_update("GRANT SELECT ON SCHEMA crm.main TO eve"), "root"),
    "ingest into attached": (_ingest("o", "append", "crm.main"), ""),
    "copy": (_update("COPY open_t TO '/tmp/x.csv'"), ""),
    "server setting": (_update("SET datafusion.execution.batch_size = 1"), ""),
}
ROUTES = READING | CHANGING


def _needs_extra(route: str) -> None:
    if route.startswith("index on"):
        pytest.importorskip("faiss", reason="the extra 'vector' is not installed")
        pytest.importorskip("tantivy", reason="the extra 'vector' is not installed")


def _allowed(routes: dict[str, tuple[Callable[[Any], Any], str]]) -> list[tuple[str, str]]:
    return [(route, user) for route, (_, allowed) in routes.items() for user in allowed.split()]


@pytest.mark.parametrize(("route", "user"), _allowed(READING))
def test_allowed_to_read(connect_unchanged: Connect, route: str, user: str) -> None:
    """A role reads each table that it can read."""
    READING[route][0](connect_unchanged(user))


@pytest.mark.parametrize(("route", "user"), _allowed(CHANGING))
def test_allowed_to_change(connect: Connect, route: str, user: str) -> None:
    """What a role may change is changed."""
    _needs_extra(route)
    CHANGING[route][0](connect(user))


@pytest.mark.parametrize("route", ROUTES)
def test_refused(connect_unchanged: Connect, route: str) -> None:
    """What a role may not is refused, without a trace of the server's paths or code."""
    _needs_extra(route)
    run, allowed = ROUTES[route]
    for user in sorted({"root", "ann", "rob", "eve"} - set(allowed.split())):
        with pytest.raises(manager.Error) as refused:
            run(connect_unchanged(user))
        assert "Traceback" not in str(refused.value)
        assert ".py" not in str(refused.value)


@pytest.mark.parametrize("user", ["root", "ann", "rob", "eve"])
def test_external_tables(connect: Connect, tmp_path: Path, user: str) -> None:
    """An admin makes them of what the configuration lists, nobody else."""
    making = _update(f"CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '{tmp_path}/files/x.csv'")
    connection = connect(user)
    if user != "root":
        with pytest.raises(manager.Error, match="requires the role admin"):
            making(connection)
        return
    making(connection)
    _query("SELECT a FROM x")(connection)
    with pytest.raises(manager.Error, match="not granted to you"):
        _query("SELECT a FROM x")(connect("ann"))


@pytest.mark.parametrize(
    ("user", "seen"),
    [
        ("root", {"open_t", "shut_t", "part_t", "open_v"}),
        ("ann", {"open_t", "part_t", "open_v"}),
        ("rob", {"open_t", "part_t"}),
        ("eve", set()),
    ],
)
def test_metadata(connect_unchanged: Connect, user: str, seen: set[str]) -> None:
    """get_objects and information_schema list what may be read."""
    connection = connect_unchanged(user)
    catalogs = connection.adbc_get_objects(depth="columns").read_all().to_pylist()
    schemas = {s["db_schema_name"]: s["db_schema_tables"] for c in catalogs for s in c["catalog_db_schemas"]}
    assert {table["table_name"] for table in schemas["public"]} == seen
    with connection.cursor() as cursor:
        for view in ("tables", "columns"):
            cursor.execute(f"SELECT table_name FROM information_schema.{view} WHERE table_schema = 'public'")
            assert {row[0] for row in cursor.fetchall()} == seen


@pytest.mark.parametrize(("user", "seen"), [("root", "ohp"), ("ann", "op"), ("rob", "op"), ("eve", "")])
def test_metadata_of_attached_databases(connect_unchanged: Connect, user: str, seen: str) -> None:
    """Lists have the attached tables that can be read; no list names a database without a grant."""
    connection = connect_unchanged(user)
    catalogs = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
    schemas = {s["db_schema_name"]: s["db_schema_tables"] for c in catalogs for s in c["catalog_db_schemas"]}
    assert {table["table_name"] for table in schemas.get("crm.main", ())} == set(seen)
    assert ("erp.main" in schemas) == (user == "root")
    with connection.cursor() as cursor:
        told = list[tuple[object, ...]]()
        for sql in ("SHOW DATABASES", "SELECT * FROM information_schema.schemata", "SELECT * FROM system.settings",
                    "SELECT table_name FROM information_schema.tables WHERE table_schema = 'crm.main'"):  # fmt: skip
            cursor.execute(sql)
            told += cursor.fetchall()
    assert {row for row in told if row[0] in {*"ohp"}} == {(name,) for name in seen}
    assert ("erp" in str(told)) == (user == "root")
    assert ("crm" in str(told)) == (user != "eve")
    if user in {"ann", "rob"}:
        with connection.cursor() as cursor:
            cursor.execute("SELECT a FROM crm.p")
            assert cursor.fetchall() == [(1,)]


def test_system_tables(connect: Connect) -> None:
    """An admin sees all users' queries, users and grants; others their own."""
    _query("SELECT ai_gen('Say', b) FROM open_t")(connect("ann"))
    for user, others in (("root", True), ("ann", True), ("rob", False)):
        with connect(user).cursor() as cursor:
            cursor.execute("SELECT count(*) FROM system.ai_calls")
            assert (cursor.fetchall()[0][0] > 0) == others
            cursor.execute("SELECT DISTINCT sql FROM system.queries WHERE sql LIKE '%ai_gen(''Say''%'")
            assert bool(cursor.fetchall()) == others
            cursor.execute("SELECT name FROM system.users")
            assert (len(cursor.fetchall()) > 1) == (user == "root")
            cursor.execute("SELECT count(*) FROM system.grants WHERE grantee = 'ann'")
            assert bool(cursor.fetchall()[0][0]) == (user != "rob")


def test_what_one_makes_is_one_s_own(connect: Connect) -> None:
    """The owner may do everything with a table, others nothing."""
    ann = connect("ann")
    _update("CREATE TABLE mine AS SELECT 1 AS a")(ann)
    for sql in (
        "UPDATE mine SET a = 2",
        "INSERT INTO mine VALUES (3)",
        "CREATE OR REPLACE TABLE mine AS SELECT 4 AS a",
    ):
        _update(sql)(ann)
    with pytest.raises(manager.Error):
        _query("SELECT * FROM mine")(connect("rob"))
    _update("DROP TABLE mine")(ann)


def _bearer(database: Database, name: str) -> tuple[bytes, bytes]:
    return b"authorization", f"Bearer {database.access.store.add_token(name)}".encode()


def test_handles_of_another_user(server: FlightSqlServer, database: Database) -> None:
    """Tickets, prepared statements and cookies that leak open nothing: for another user they are not there."""
    root, eve = (flight.FlightCallOptions(headers=[_bearer(database, name)]) for name in ("root", "eve"))
    with flight.connect(server.uri) as client:
        command = pack(sql_message("CommandStatementQuery", query="SELECT * FROM shut_t"))
        info = client.get_flight_info(flight.FlightDescriptor.for_command(command), root)
        request = pack(sql_message("ActionCreatePreparedStatementRequest", query="SELECT * FROM shut_t"))
        (made,) = client.do_action(flight.Action("CreatePreparedStatement", request), root)
        handle = made.body.to_pybytes().split(b"\x0a\x20")[1][:32]
        prepared = pack(sql_message("CommandPreparedStatementQuery", prepared_statement_handle=handle))
        closing = pack(sql_message("ActionClosePreparedStatementRequest", prepared_statement_handle=handle))
        cancel = flight_message("CancelFlightInfoRequest", info=info.serialize()).SerializeToString()
        list(client.do_action(flight.Action("ClosePreparedStatement", closing), eve))
        for attempt in (
            lambda: client.do_get(info.endpoints[0].ticket, eve).read_all(),
            lambda: client.get_flight_info(flight.FlightDescriptor.for_command(prepared), eve),
            lambda: client.get_schema(flight.FlightDescriptor.for_command(prepared), eve),
            lambda: list(client.do_action(flight.Action("CancelFlightInfo", cancel), eve)),
            lambda: list(client.do_action(flight.Action("CancelQueryById", info.app_metadata), eve)),
            lambda: list(client.do_action(flight.Action("GetQueryProgress", info.app_metadata), eve)),
        ):
            with pytest.raises((KeyError, flight.FlightServerError), match=r"no such|no query"):
                attempt()
        assert client.get_flight_info(flight.FlightDescriptor.for_command(prepared), root).schema.names == ["a", "b"]
        assert client.do_get(info.endpoints[0].ticket, root).read_all().num_rows == 5


def test_a_cookie_of_another_user(server: FlightSqlServer, database: Database) -> None:
    """A session's cookie finds it with its user's credentials alone."""

    class Cookies(flight.ClientMiddlewareFactory, flight.ClientMiddleware):
        def start_call(self, _info: object) -> Any:
            return self

        def received_headers(self, headers: Any) -> None:
            given.extend(headers.get("set-cookie", []))

    given: list[str] = []
    root, eve = (_bearer(database, name) for name in ("root", "eve"))
    setting = flight_message("SetSessionOptionsRequest")
    setting.session_options["cache"].string_value = "off"
    with flight.FlightClient(server.uri, middleware=[Cookies()]) as client:
        options = flight.FlightCallOptions(headers=[root])
        list(client.do_action(flight.Action("SetSessionOptions", setting.SerializeToString()), options))
        cookie = (b"cookie", given[0].split(";")[0].encode())
        for user, value in ((root, "off"), (eve, "on")):
            options = flight.FlightCallOptions(headers=[user, cookie])
            (answer,) = client.do_action(flight.Action("GetSessionOptions", b""), options)
            kept = parse_flight("GetSessionOptionsResult", answer.body.to_pybytes()).session_options
            assert kept["cache"].string_value == value


def test_a_revoked_right_ends_at_once(connect: Connect, database: Database) -> None:
    """For statements that were prepared while it held, too."""
    rob = connect("rob")
    with rob.cursor() as cursor:
        cursor.execute("SELECT * FROM open_t WHERE a = ?", (1,))
        database.session().update("REVOKE SELECT ON open_t FROM rob")
        with pytest.raises(manager.Error, match="no SELECT"):
            cursor.execute("SELECT * FROM open_t WHERE a = ?", (2,))


def test_rights_at_the_time_of_fetching(server: FlightSqlServer, database: Database) -> None:
    """A result planned before a right was taken away, or a filter made, is not served from that plan."""
    rob = flight.FlightCallOptions(headers=[_bearer(database, "rob")])
    admin = database.session()
    with flight.connect(server.uri) as client:
        command = pack(sql_message("CommandStatementQuery", query="SELECT a FROM open_t"))
        infos = [client.get_flight_info(flight.FlightDescriptor.for_command(command), rob) for _ in range(2)]
        admin.update("CREATE ROW FILTER ON open_t TO rob AS a = 1")
        assert client.do_get(infos[0].endpoints[0].ticket, rob).read_all().to_pylist() == [{"a": 1}]
        admin.update("REVOKE SELECT ON open_t FROM rob")
        with pytest.raises(flight.FlightUnauthorizedError, match="no SELECT"):
            client.do_get(infos[1].endpoints[0].ticket, rob).read_all()
