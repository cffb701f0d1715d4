"""Addresses of servers, and TLS with them, through `connect` and through the SQLAlchemy dialect."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trustme

import flightllm
from flightllm.access.login import Login
from flightllm.access.store import User
from flightllm.connection.connect import _read_address
from flightllm.errors import EngineUnavailableError, FlightLLMError, InvalidInputError, UnauthenticatedError
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.certificates import certified_config
from tests.connection.conftest import fake

HOSTS = [
    ("flightllm://", "grpc://127.0.0.1:31337"),
    ("flightllm://localhost", "grpc://localhost:31337"),
    ("flightllm://127.0.0.1:4000", "grpc://127.0.0.1:4000"),
    ("flightllm://[::1]:4000", "grpc://[::1]:4000"),
    ("flightllm://me:secret@db.example.com", "grpc+tls://db.example.com:31337"),
    ("flightllm://10.0.0.1", "grpc+tls://10.0.0.1:31337"),
    ("flightllm://db?tls=false", "grpc://db:31337"),
    ("flightllm://localhost?tls=true", "grpc+tls://localhost:31337"),
    ("flightllm://localhost?tls_ca=ca.pem", "grpc+tls://localhost:31337"),
    ("flightllm://localhost?tls_verify=false", "grpc+tls://localhost:31337"),
    ("flightllm://localhost?tls_name=db", "grpc+tls://localhost:31337"),
    ("flightllm://localhost/sales?timeout=5&set.max_calls=100", "grpc://localhost:31337"),
]


@pytest.mark.parametrize(("address", "uri"), HOSTS)
def test_tls_beyond_this_machine(address: str, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`connect` and the dialect read one address alike: TLS beyond this machine, unless an option says otherwise."""
    monkeypatch.chdir(tmp_path)
    Path("ca.pem").write_bytes(trustme.CA().cert_pem.bytes())
    assert _read_address(address, None).server.uri == uri
    sqlalchemy = pytest.importorskip("sqlalchemy")
    from flightllm.alchemy.address import read_url

    assert read_url(sqlalchemy.make_url(address)).uri == uri


@pytest.mark.parametrize(
    ("address", "uri"),
    [
        ("grpc://db.example.com", "grpc://db.example.com:31337"),
        ("grpc+tls://localhost:1", "grpc+tls://localhost:1"),
        ("flightllm+tls://localhost", "grpc+tls://localhost:31337"),
    ],
)
def test_schemes_that_decide(address: str, uri: str) -> None:
    """A scheme that names TLS, or its absence, decides."""
    assert _read_address(address, None).server.uri == uri


WRONG = [
    ("flightllm://db?tls=maybe", "neither true nor false"),
    ("flightllm://db?tls_verify=maybe", "neither true nor false"),
    ("flightllm://db?tsl=true", "unknown option 'tsl'"),
    ("flightllm://db?set.=1", "unknown option 'set.'"),
    ("flightllm://db?timeout=soon", "not a number of seconds"),
    ("flightllm://db?timeout=-1", "not a number of seconds"),
    ("flightllm://db?client_cert=x.pem", "needs its key"),
    ("flightllm://db?tls_ca=nowhere.pem", "'nowhere.pem' cannot be read as a PEM file: No such file"),
    ("flightllm://db?tls=false&tls_name=x", "tls_name has no use without TLS"),
    ("flightllm://ann:x@db?token=abc", "both a user and a token"),
]


@pytest.mark.parametrize(("address", "message"), WRONG)
def test_wrong_addresses(address: str, message: str) -> None:
    """`connect` and the dialect refuse the same mistakes with the same words, before they send anything."""
    with pytest.raises(InvalidInputError, match=message):
        flightllm.connect(address)
    sqlalchemy = pytest.importorskip("sqlalchemy")
    from flightllm.alchemy.address import read_url

    with pytest.raises(sqlalchemy.exc.ArgumentError, match=message):
        read_url(sqlalchemy.make_url(address))


@pytest.mark.parametrize(
    ("address", "options", "message"),
    [
        ("grpc://", {}, "lacks its host"),
        ("grpc://db#x", {}, "has '#x', which means nothing"),
        ("grpc://db?tls=true", {}, "both grpc:// and tls=true"),
        ("grpc://db", {"tls_ca": "x.pem"}, r"write grpc\+tls://"),
        ("flightllm://db", {"tls_ca": "nowhere.pem"}, "'nowhere.pem' cannot be read as a PEM file: No such file"),
        ("flightllm://db", {"tls_ca": __file__}, "cannot be read as a PEM file"),
    ],
)
def test_wrong_calls(address: str, options: dict[str, str], message: str) -> None:
    """A scheme and an option that contradict each other are an error, and so is a file without certificates."""
    with pytest.raises(InvalidInputError, match=message):
        flightllm.connect(address, **options)  # type: ignore[arg-type]


def _answers(address: str, sql: str) -> list[object]:
    """Return the value of a query through `connect`, and through the dialect."""
    with flightllm.connect(address) as connection:
        found = [connection.sql(sql).fetchall()[0][0]]
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(address)
    with engine.connect() as other:
        found.append(other.exec_driver_sql(sql).scalar())
    engine.dispose()
    return found


def test_schema_and_settings(address: str) -> None:
    """The path is the schema of names without one, and `set.NAME` is a setting; further sessions have them too."""
    place = f"flightllm://{address.removeprefix('grpc://')}"
    with flightllm.connect(place) as connection:
        connection.sql('CREATE SCHEMA "my sales"; CREATE TABLE "my sales".t (a int)')
    whole = f"{place}/my%20sales?set.max_calls=7&timeout=60"
    assert _answers(whole, "SELECT current_schema()") == ["my sales"] * 2
    assert _answers(whole, "SELECT count(*) FROM t") == [0, 0]
    for found in _failures(whole, "SELECT count(ai_gen('Name ' || value)) FROM generate_series(1, 9)"):
        assert "7" in found
    with flightllm.connect(whole, settings={"max_calls": 20}) as connection, connection.cursor() as other:
        assert other.sql("SELECT current_schema()").fetchall() == [("my sales",)]
        assert connection.sql("SELECT count(ai_gen('Call {x}', value => x)) FROM generate_series(1, 9) t(x)").fetchall()
    for found in _failures(f"{place}/nowhere", "SELECT 1"):
        assert "nowhere" in found


def test_timeout(address: str) -> None:
    """A statement ends with an error after the seconds of `timeout`."""
    place = f"flightllm://{address.removeprefix('grpc://')}?timeout=0.3"
    slow = "SELECT count(ai_gen('Tell {x}', value => x)) FROM generate_series(1, 4000) t(x)"
    for found in _failures(place, slow):
        assert "deadline" in found.lower()


def _failures(address: str, sql: str) -> list[str]:
    """Return the error of a query through `connect`, and through the dialect."""
    with pytest.raises(FlightLLMError) as ours, flightllm.connect(address) as connection:
        connection.sql(sql).fetchall()
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(address)
    with pytest.raises(sqlalchemy.exc.DBAPIError) as theirs, engine.connect() as other:
        other.exec_driver_sql(sql).scalar()
    engine.dispose()
    return [str(ours.value), str(theirs.value)]


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Return the port of a server with TLS and a user, and a folder with the certificate of its authority.

    The folder also has the user's certificate. The file `port` has the port of a server that asks for it.
    """
    folder = tmp_path_factory.mktemp("secure")
    authority = trustme.CA()
    config = certified_config(folder, authority)
    ann = authority.issue_cert(common_name="ann")
    ann.private_key_pem.write_to_path(folder / "ann_key.pem")
    ann.cert_chain_pems[0].write_to_path(folder / "ann.pem")
    trustme.CA().cert_pem.write_to_path(folder / "other.pem")
    with closing(Database.open(fake(folder / "data"))) as database:
        database.access.store.add_user(User("ann", "readonly"), "a good one")
        login = Login(database.access.store, database.config.auth, "the token")
        server = FlightSqlServer(database, config, login=login)
        try:
            (folder / "port").write_text(str(server.certified_port), encoding="ascii")
            yield server.uri.rpartition(":")[2], folder
        finally:
            server.drain(0)


def test_tls(secure: tuple[str, Path]) -> None:
    """A connection with the right certificates works, by `connect` and by the dialect."""
    port, folder = secure
    trusted = folder / "authority.pem"
    for address, options in (
        (f"grpc+tls://ann:a%20good%20one@127.0.0.1:{port}", {"tls_ca": trusted}),
        (f"flightllm://ann:a%20good%20one@localhost:{port}?tls_ca={trusted}", {}),
        (f"flightllm://localhost:{port}?token=the%20token", {"tls_ca": str(trusted)}),
    ):
        with flightllm.connect(address, **options) as connection:
            assert connection.sql("SELECT 1").fetchall() == [(1,)]
    sqlalchemy = pytest.importorskip("sqlalchemy")
    address = f"flightllm://ann:a%20good%20one@localhost:{port}/?tls_ca={trusted}"
    engine = sqlalchemy.create_engine(address)
    with engine.connect() as other:
        assert other.exec_driver_sql("SELECT 1").scalar() == 1
    engine.dispose()


def test_options_of_tls(secure: tuple[str, Path]) -> None:
    """`connect` and the dialect can skip the check of the server, and show a certificate of the user."""
    port, folder = secure
    assert _answers(f"flightllm://ann:a%20good%20one@localhost:{port}/?tls_verify=false", "SELECT 1") == [1, 1]
    own = f"client_cert={folder / 'ann.pem'}&client_key={folder / 'ann_key.pem'}&tls_ca={folder / 'authority.pem'}"
    certified = (folder / "port").read_text(encoding="ascii")
    assert _answers(f"flightllm://localhost:{certified}/?{own}", "SELECT current_user") == ["ann", "ann"]


def test_names_of_certificates(tmp_path: Path) -> None:
    """`tls_name` is the name to look for in the server's certificate."""
    authority = trustme.CA()
    config = certified_config(tmp_path, authority)
    named = authority.issue_cert("db.internal")
    named.private_key_pem.write_to_path(tmp_path / "key.pem")
    named.cert_chain_pems[0].write_to_path(tmp_path / "certificate.pem")
    with closing(Database.open(fake(tmp_path / "data"))) as database:
        server = FlightSqlServer(database, config)
        try:
            address = f"flightllm://localhost:{server.port}/?tls_ca={tmp_path / 'authority.pem'}"
            assert all(_failures(address, "SELECT 1"))
            assert _answers(f"{address}&tls_name=db.internal", "SELECT 1") == [1, 1]
        finally:
            server.drain(0)


def test_certificates_that_do_not_fit(secure: tuple[str, Path]) -> None:
    """A missing or a wrong certificate, and a plain connection, are errors that say what to write."""
    port, folder = secure
    for options in ({}, {"tls_ca": folder / "other.pem"}):
        for login in ("", "ann:x@"):
            with pytest.raises(EngineUnavailableError, match="no TLS certificate that is trusted here"):
                flightllm.connect(f"grpc+tls://{login}localhost:{port}", **options)  # type: ignore[arg-type]
    with pytest.raises(UnauthenticatedError):
        flightllm.connect(f"grpc+tls://ann:bad@localhost:{port}", tls_ca=folder / "authority.pem")
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(f"flightllm://ann:x@localhost:{port}/?tls_ca={folder / 'other.pem'}")
    with pytest.raises(sqlalchemy.exc.DBAPIError, match="certificate"):
        engine.connect()
    engine.dispose()
