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
from flightllm.errors import EngineUnavailableError, InvalidInputError, UnauthenticatedError
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.certificates import certified_config
from tests.connection.conftest import fake

HOSTS = [
    ("flightllm://localhost", "grpc://localhost:31337"),
    ("flightllm://127.0.0.1:4000", "grpc://127.0.0.1:4000"),
    ("flightllm://[::1]:4000", "grpc://[::1]:4000"),
    ("flightllm://me:secret@db.example.com", "grpc+tls://db.example.com:31337"),
    ("flightllm://10.0.0.1", "grpc+tls://10.0.0.1:31337"),
    ("flightllm://db?tls=false", "grpc://db:31337"),
    ("flightllm://localhost?tls=true", "grpc+tls://localhost:31337"),
    ("flightllm://localhost?tls_ca=ca.pem", "grpc+tls://localhost:31337"),
]


@pytest.mark.parametrize(("address", "uri"), HOSTS)
def test_tls_beyond_this_machine(address: str, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`connect` and the dialect read one address alike: TLS beyond this machine, unless an option says otherwise."""
    monkeypatch.chdir(tmp_path)
    Path("ca.pem").write_bytes(trustme.CA().cert_pem.bytes())
    assert _read_address(address, None).uri == uri
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
    assert _read_address(address, None).uri == uri


@pytest.mark.parametrize(
    ("address", "options", "message"),
    [
        ("flightllm://db?tls=maybe", {}, "neither true nor false"),
        ("flightllm://db?tsl=true", {}, "option 'tsl', which"),
        ("flightllm://db/sales", {}, "'/sales', which"),
        ("grpc://db?tls=true", {}, "both grpc:// and tls=true"),
        ("grpc://db", {"tls_ca": "x.pem"}, r"write grpc\+tls:// in place"),
        ("flightllm://db", {"tls_ca": "nowhere.pem"}, "'nowhere.pem' cannot be read as a PEM file: No such file"),
        ("flightllm://db", {"tls_ca": __file__}, "cannot be read as a PEM file"),
    ],
)
def test_wrong_addresses(address: str, options: dict[str, str], message: str) -> None:
    """A mistake in the address, or a file without certificates, is an error before anything is sent."""
    with pytest.raises(InvalidInputError, match=message):
        flightllm.connect(address, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Return the port of a server with TLS and a user, and the folder with the certificate of its authority."""
    folder = tmp_path_factory.mktemp("secure")
    config = certified_config(folder, trustme.CA())
    trustme.CA().cert_pem.write_to_path(folder / "other.pem")
    with closing(Database.open(fake(folder / "data"))) as database:
        database.access.store.add_user(User("ann", "readonly"), "a good one")
        login = Login(database.access.store, database.config.auth, "the token")
        server = FlightSqlServer(database, config, login=login)
        try:
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
