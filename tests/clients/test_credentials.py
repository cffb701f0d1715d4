"""Who is let in, by which credentials: none, passwords, tokens, certificates; over TLS and without."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import adbc_driver_manager as manager
import pytest
import trustme
from click.testing import CliRunner
from pyarrow import flight

from flightllm.access.store import User
from flightllm.cli import main
from flightllm.client import Client
from flightllm.config import Config, EngineConfig, ServerConfig
from flightllm.errors import FlightLLMError
from flightllm.flight.messages import pack, sql_message
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.certificates import certified_config
from tests.servers import SupervisedServer, ask

PASSWORD = "correct horse"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database with two users, a table that one may read and one that it may not."""
    database = Database.open(Config(engine=EngineConfig("fake"), data_folder=tmp_path / "data"))
    admin, store = database.session(), database.access.store
    for name in ("open_t", "shut_t"):
        admin.update(f"CREATE TABLE {name} AS SELECT 1 AS a")
    for user in (User("root", "admin"), User("ann", "user")):
        store.add_user(user)
    admin.update("GRANT SELECT ON open_t TO ann")
    yield database
    database.close()


@pytest.fixture
def server(database: Database) -> Iterator[FlightSqlServer]:
    """Run a server."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), login=database.access.login)
    yield server
    server.drain(0)


def _read(connection: flight_sql.Connection, table: str) -> None:
    with connection.cursor() as cursor:
        assert ask(cursor, f"SELECT * FROM {table}") == [(1,)]


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


def test_api_tokens(server: FlightSqlServer, database: Database) -> None:
    """A token stands for its user, in the CLI's client and as a password; an expired one for nobody."""
    token = database.access.store.add_token("ann")
    old = database.access.store.add_token("ann", expires=datetime.now(UTC) - timedelta(days=1))
    with Client(server.uri, {"authorization": f"Bearer {token}"}) as client:
        client.query("SELECT * FROM open_t")
        with pytest.raises(FlightLLMError, match="not granted to you"):
            client.query("SELECT * FROM shut_t")
    with (
        pytest.raises(FlightLLMError, match="does not accept this token"),
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
    config = certified_config(tmp_path, authority)
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
            _read(connection, "open_t")
            with pytest.raises(manager.Error, match="not granted to you"):
                _read(connection, "shut_t")
    for other, common in ((authority, "mallory"), (trustme.CA(), "ann")):
        with pytest.raises(manager.Error), _certified(certified, other, common=common) as connection:
            _read(connection, "open_t")


@pytest.mark.slow
def test_the_port_for_certificates_is_logged(tmp_path: Path, authority: trustme.CA) -> None:
    """Where any free port is asked for, the log says which one it became."""
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    certificate.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    certificate.cert_chain_pems[0].write_to_path(str(tmp_path / "certificate.pem"))
    names = {"tls_certificate": "certificate", "tls_key": "key", "client_authority": "ca"}
    files = "".join(f'{key} = "{tmp_path}/{name}.pem"\n' for key, name in names.items())
    settings = f'[server]\nclient_listen = "127.0.0.1:0"\n{files}[engine]\nkind = "fake"'
    with SupervisedServer(tmp_path, settings) as server:
        assert re.search(r"listening to clients with certificates.*port=[1-9]", server.log.read_text())


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
        _read(connection, "open_t")
    plain = certified.uri.replace("+tls", "+tcp")
    with pytest.raises(manager.Error), flight_sql.connect(plain, db_kwargs={"username": "ann", "password": PASSWORD}):
        pass


def test_the_command_line_over_tls(
    certified: FlightSqlServer,
    authority: trustme.CA,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes a user's name, the password from the environment, and the certificates to trust."""
    database.access.store.change_user(User("ann", "user"), PASSWORD)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("FLIGHTLLM_URI", f"grpc+tls://localhost:{certified.port}")

    def said(*arguments: str, password: str = PASSWORD) -> str:
        monkeypatch.setenv("FLIGHTLLM_PASSWORD", password)
        return CliRunner().invoke(main, ["query", *arguments, "SELECT a FROM open_t"]).output

    trusted = ("--tls-ca", str(tmp_path / "ca.pem"))
    assert "(1 row)" in said("--user", "ann", *trusted)
    assert "does not accept this user and password" in said("--user", "ann", *trusted, password="wrong")
    assert "--tls-ca" in said("--user", "ann")
    assert "give --user" in said(*trusted)
