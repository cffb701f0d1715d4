"""Who may do what, by each route: real clients of a real server with users of every role."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import adbc_driver_manager as manager
import pyarrow as pa
import pytest
import trustme
from pyarrow import flight

from flightllm.access.store import User
from flightllm.client import Client
from flightllm.config import Config, EngineConfig, ServerConfig
from flightllm.database import Database
from flightllm.errors import FlightLLMError
from flightllm.flight.messages import flight_message, pack, parse_flight, sql_message
from flightllm.flight.server import FlightSqlServer

PASSWORD = "correct horse"
SMALL = pa.table({"a": [1]})


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database with users of each role, a table that is granted and one that is not."""
    database = Database.open(Config(engine=EngineConfig(kind="fake"), data_folder=tmp_path / "data"))
    admin, store = database.session(), database.access.store
    for name in ("open_t", "shut_t"):
        admin.update(f"CREATE TABLE {name} AS SELECT value AS a, 'text' AS b FROM generate_series(1, 5)")
    admin.update("CREATE SCHEMA s")
    for user in (User("root", "admin"), User("ann", "user"), User("rob", "readonly"), User("eve", "readonly")):
        store.add_user(user)
    admin.update("GRANT SELECT, INSERT, DELETE ON open_t TO ann")
    admin.update("GRANT CREATE ON SCHEMA public TO ann")
    admin.update("GRANT ALL ON open_t TO rob")
    for name in ("open", "shut"):
        admin.update(f"CREATE MODEL {name}_m OPTIONS (engine 'fake')")
        admin.update(f"CREATE PROMPT {name}_p AS 'What is it?'")
    for name in ("ann", "rob"):
        admin.update(f"GRANT USAGE ON MODEL open_m TO {name}")
        admin.update(f"GRANT USAGE ON PROMPT open_p TO {name}")
    yield database
    database.close()


@pytest.fixture
def server(database: Database) -> Iterator[FlightSqlServer]:
    """Run a server."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), login=database.access.login)
    yield server
    server.drain(0)


@pytest.fixture
def connect(server: FlightSqlServer, database: Database) -> Iterator[Callable[[str], flight_sql.Connection]]:
    """Return how to log in."""
    opened: list[flight_sql.Connection] = []

    def log_in(name: str) -> flight_sql.Connection:
        header = f"Bearer {database.access.store.add_token(name)}"
        kwargs = {"adbc.flight.sql.authorization_header": header}
        opened.append(flight_sql.connect(server.uri, db_kwargs=kwargs, autocommit=True))
        return opened[-1]

    yield log_in
    for connection in opened:
        connection.close()


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


def _ingest(table: str, mode: Any) -> Callable[[Any], Any]:
    def run(connection: flight_sql.Connection) -> None:
        with connection.cursor() as cursor:
            cursor.adbc_ingest(table, SMALL if mode != "append" else pa.table({"a": [1], "b": ["x"]}), mode=mode)

    return run


ROUTES: dict[str, tuple[Callable[[Any], Any], str]] = {
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
    "view with a model": (_update("CREATE VIEW new_v AS SELECT ai_gen('Say', model => shut_m) AS a"), "root"),
    "create model": (_update("CREATE MODEL new_m OPTIONS (engine 'fake')"), "root"),
    "replace model": (_update("CREATE OR REPLACE MODEL open_m OPTIONS (engine 'fake')"), "root"),
    "drop model": (_update("DROP MODEL open_m"), "root"),
    "prompt granted": (_query("SELECT ai_gen(b, prompt => open_p) FROM open_t"), "root ann rob"),
    "prompt not granted": (_query("SELECT ai_gen(b, prompt => 'shut_p@1') FROM open_t"), "root"),
    "create prompt": (_update("CREATE PROMPT new_p AS 'Who is it?'"), "root ann"),
    "replace prompt": (_update("CREATE OR REPLACE PROMPT open_p AS 'Who is it?'"), "root"),
    "drop prompt": (_update("DROP PROMPT open_p"), "root"),
    "explain": (_query("EXPLAIN SELECT ai_filter('Fine?', b) FROM shut_t"), "root"),
    "explain analyze": (_query("EXPLAIN ANALYZE SELECT * FROM shut_t"), "root"),
    "describe": (_query("DESCRIBE shut_t"), "root"),
    "table": (_query("TABLE shut_t"), "root"),
    "prepared granted": (_prepared("SELECT * FROM open_t WHERE a = ?"), "root ann rob"),
    "prepared not granted": (_prepared("SELECT * FROM shut_t WHERE a = ?"), "root"),
    "prepared insert": (_prepared("INSERT INTO open_t VALUES (?, 'x')"), "root ann"),
    "insert": (_update("INSERT INTO open_t SELECT * FROM open_t"), "root ann"),
    "insert from one not granted": (_update("INSERT INTO open_t SELECT * FROM shut_t"), "root"),
    "insert into one not granted": (_update("INSERT INTO shut_t VALUES (1, 'x')"), "root"),
    "delete": (_update("DELETE FROM open_t WHERE a = 1"), "root ann"),
    "update": (_update("UPDATE open_t SET a = 1"), "root"),
    "drop": (_update("DROP TABLE open_t"), "root"),
    "create": (_update("CREATE TABLE new_t (a INT)"), "root ann"),
    "create as": (_update("CREATE TABLE new_t AS SELECT * FROM open_t"), "root ann"),
    "create as from one not granted": (_update("CREATE TABLE new_t AS SELECT * FROM shut_t"), "root"),
    "create or replace": (_update("CREATE OR REPLACE TABLE open_t AS SELECT 1 AS a"), "root"),
    "create elsewhere": (_update("CREATE TABLE s.new_t (a INT)"), "root"),
    "view": (_update("CREATE VIEW new_v AS SELECT * FROM open_t"), "root ann"),
    "view not granted": (_update("CREATE VIEW new_v AS SELECT * FROM shut_t"), "root"),
    "view with AI not granted": (_update("CREATE VIEW new_v AS SELECT ai_gen('Say', b) FROM shut_t"), "root"),
    "schema": (_update("CREATE SCHEMA new_s"), "root"),
    "drop schema": (_update("DROP SCHEMA s"), "root"),
    "index": (_update("DROP VECTOR INDEX IF EXISTS nothing"), "root ann rob eve"),
    "grant": (_update("GRANT SELECT ON shut_t TO eve"), "root"),
    "revoke": (_update("REVOKE SELECT ON open_t FROM ann"), "root"),
    "policy": (_update("CREATE ROW FILTER ON open_t TO rob AS true"), "root"),
    "cache": (_update("TRUNCATE TABLE system.cache"), "root"),
    "ingest create": (_ingest("new_t", "create"), "root ann"),
    "ingest append": (_ingest("open_t", "append"), "root ann"),
    "ingest append not granted": (_ingest("shut_t", "append"), "root"),
    "ingest replace": (_ingest("open_t", "replace"), "root"),
    "schema of a table": (lambda c: c.adbc_get_table_schema("shut_t"), "root"),
    "settings": (_update("SET flightllm.cache = 'off'"), "root ann rob eve"),
    "external table": (_update("CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'"), ""),
    "copy": (_update("COPY open_t TO '/tmp/x.csv'"), ""),
    "file": (_query("SELECT * FROM '/etc/passwd'"), ""),
    "server setting": (_update("SET datafusion.execution.batch_size = 1"), ""),
}


@pytest.mark.parametrize("user", ["root", "ann", "rob", "eve"])
@pytest.mark.parametrize("route", ROUTES)
def test_routes(connect: Callable[[str], flight_sql.Connection], route: str, user: str) -> None:
    """What a role may is done, what it may not is refused without a trace of the server's paths or code."""
    run, allowed = ROUTES[route]
    connection = connect(user)
    if user in allowed.split():
        run(connection)
        return
    with pytest.raises(manager.Error) as refused:
        run(connection)
    assert "Traceback" not in str(refused.value)
    assert ".py" not in str(refused.value)


@pytest.mark.parametrize(
    ("user", "seen"), [("root", {"open_t", "shut_t"}), ("ann", {"open_t"}), ("rob", {"open_t"}), ("eve", set())]
)
def test_metadata(connect: Callable[[str], flight_sql.Connection], user: str, seen: set[str]) -> None:
    """get_objects and information_schema list what may be read."""
    connection = connect(user)
    catalogs = connection.adbc_get_objects(depth="columns").read_all().to_pylist()
    schemas = {s["db_schema_name"]: s["db_schema_tables"] for c in catalogs for s in c["catalog_db_schemas"]}
    assert {table["table_name"] for table in schemas["public"]} == seen
    with connection.cursor() as cursor:
        for view in ("tables", "columns"):
            cursor.execute(f"SELECT table_name FROM information_schema.{view} WHERE table_schema = 'public'")
            assert {row[0] for row in cursor.fetchall()} == seen


def test_system_tables(connect: Callable[[str], flight_sql.Connection]) -> None:
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


def test_what_one_makes_is_one_s_own(connect: Callable[[str], flight_sql.Connection]) -> None:
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


def test_a_revoked_right_ends_at_once(connect: Callable[[str], flight_sql.Connection], database: Database) -> None:
    """For statements that were prepared while it held, too."""
    rob = connect("rob")
    with rob.cursor() as cursor:
        cursor.execute("SELECT * FROM open_t WHERE a = ?", (1,))
        database.session().update("REVOKE SELECT ON open_t FROM rob")
        with pytest.raises(manager.Error, match="no SELECT"):
            cursor.execute("SELECT * FROM open_t WHERE a = ?", (2,))


@pytest.mark.parametrize("user", [None, "root"])
def test_a_client_without_credentials(server: FlightSqlServer, user: str | None) -> None:
    """No call is answered, metadata and actions included."""
    kwargs = {} if user is None else {"username": user, "password": "wrong password"}
    with pytest.raises(manager.Error), flight_sql.connect(server.uri, db_kwargs=kwargs, autocommit=True) as connection:
        connection.adbc_get_objects().read_all()
    with flight.connect(server.uri) as client:
        descriptor = flight.FlightDescriptor.for_command(pack(sql_message("CommandGetCatalogs")))
        for attempt in (
            lambda: client.get_flight_info(descriptor),
            lambda: client.do_get(flight.Ticket(descriptor.command)).read_all(),
            lambda: list(client.do_action(flight.Action("GetSessionOptions", b""))),
            lambda: list(client.list_flights()),
            lambda: list(client.list_actions()),
        ):
            with pytest.raises(flight.FlightUnauthenticatedError):
                attempt()


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


def test_api_tokens(server: FlightSqlServer, database: Database) -> None:
    """A token stands for its user, in the CLI's client and as a password; an expired one for nobody."""
    token = database.access.store.add_token("ann")
    old = database.access.store.add_token("ann", expires=datetime.now(UTC) - timedelta(days=1))
    with Client(server.uri, {"authorization": f"Bearer {token}"}) as client:
        client.query("SELECT * FROM open_t")
        with pytest.raises(FlightLLMError, match="no SELECT"):
            client.query("SELECT * FROM shut_t")
    with (
        pytest.raises(FlightLLMError, match="does not take this token"),
        Client(server.uri, {"authorization": f"Bearer {old}"}) as client,
    ):
        client.query("SELECT 1")


@pytest.fixture
def authority() -> trustme.CA:
    """Return who signs certificates."""
    return trustme.CA()


@pytest.fixture
def certified(database: Database, authority: trustme.CA, tmp_path: Path) -> Iterator[FlightSqlServer]:
    """Run a server with TLS, and a port for client certificates."""
    own = authority.issue_cert("localhost", "127.0.0.1")
    own.private_key_pem.write_to_path(tmp_path / "key.pem")
    own.cert_chain_pems[0].write_to_path(tmp_path / "certificate.pem")
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    config = ServerConfig(
        "127.0.0.1:0",
        tls_certificate=tmp_path / "certificate.pem",
        tls_key=tmp_path / "key.pem",
        client_listen="127.0.0.1:0",
        client_authority=tmp_path / "authority.pem",
    )
    server = FlightSqlServer(database, config, login=database.access.login)
    yield server
    server.drain(0)


def _certified(server: FlightSqlServer, authority: trustme.CA, *names: str, common: str | None = None) -> Any:
    shown = authority.issue_cert(*names, common_name=common)
    return flight_sql.connect(
        f"grpc+tls://localhost:{server.certified_port}",
        db_kwargs={
            "adbc.flight.sql.client_option.tls_root_certs": authority.cert_pem.bytes().decode(),
            "adbc.flight.sql.client_option.mtls_cert_chain": shown.cert_chain_pems[0].bytes().decode(),
            "adbc.flight.sql.client_option.mtls_private_key": shown.private_key_pem.bytes().decode(),
        },
        autocommit=True,
    )


def test_client_certificates(certified: FlightSqlServer, authority: trustme.CA, database: Database) -> None:
    """The certificate's name is the user's; one of nobody here, or of another authority, opens nothing."""
    database.access.store.add_user(User("kim@example.org", "readonly"))
    database.session().update('GRANT SELECT ON open_t TO "kim@example.org"')
    for names, common in ((("kim@example.org",), None), ((), "ann")):
        with _certified(certified, authority, *names, common=common) as connection:
            _query("SELECT * FROM open_t")(connection)
            with pytest.raises(manager.Error, match="no SELECT"):
                _query("SELECT * FROM shut_t")(connection)
    for other, common in ((authority, "mallory"), (trustme.CA(), "ann")):
        with pytest.raises(manager.Error), _certified(certified, other, common=common) as connection:
            _query("SELECT 1")(connection)


def test_tls(certified: FlightSqlServer, authority: trustme.CA, database: Database) -> None:
    """The first port speaks TLS with passwords, and no plain text."""
    database.access.store.change_user(User("ann", "user"), PASSWORD)
    kwargs = {
        "adbc.flight.sql.client_option.tls_root_certs": authority.cert_pem.bytes().decode(),
        "username": "ann",
        "password": PASSWORD,
    }
    assert certified.uri.startswith("grpc+tls://")
    uri = f"grpc+tls://localhost:{certified.port}"
    with flight_sql.connect(uri, db_kwargs=kwargs, autocommit=True) as connection:
        _query("SELECT * FROM open_t")(connection)
    plain = certified.uri.replace("+tls", "+tcp")
    with pytest.raises(manager.Error), flight_sql.connect(plain, db_kwargs={"username": "ann", "password": PASSWORD}):
        pass
