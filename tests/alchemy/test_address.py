"""Addresses: hosts, logins, TLS, settings, and mistakes in them."""

from pathlib import Path
from typing import Any

import pytest

alchemy: Any = pytest.importorskip("sqlalchemy")
from flightllm.alchemy.address import read_url  # noqa: E402 -- after the test for its package

_HEADER = "adbc.flight.sql.rpc.call_header.x-flightllm-"


def _read(text: str) -> Any:
    return read_url(alchemy.make_url(text))


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("flightllm://", "grpc://127.0.0.1:31337"),
        ("flightllm://localhost", "grpc://localhost:31337"),
        ("flightllm://127.0.0.1:4000", "grpc://127.0.0.1:4000"),
        ("flightllm://[::1]:4000", "grpc://[::1]:4000"),
        ("flightllm+adbc://db.example.com", "grpc+tls://db.example.com:31337"),
        ("flightllm://10.0.0.1", "grpc+tls://10.0.0.1:31337"),
        ("flightllm://db?tls=false", "grpc://db:31337"),
        ("flightllm://localhost?tls=true", "grpc+tls://localhost:31337"),
        ("flightllm://localhost?tls_verify=false", "grpc+tls://localhost:31337"),
    ],
)
def test_hosts(text: str, uri: str) -> None:
    """A host of this machine needs no TLS; every other one has it, unless the address says otherwise."""
    assert _read(text).uri == uri


def test_logins() -> None:
    """A user and password, or a token, go to ADBC; the path is the schema."""
    target = _read("flightllm://bob:p%40ss@localhost/sales?set.max_calls=100&timeout=5")
    assert (target.database["username"], target.database["password"]) == ("bob", "p@ss")
    assert target.database[f"{_HEADER}max_calls"] == "100"
    assert target.database["adbc.flight.sql.rpc.timeout_seconds.query"] == "5.0"
    assert list(target.connection.values()) == ["sales"]
    assert "Bearer abc" in _read("flightllm://localhost?token=abc").database.values()


def test_certificates(tmp_path: Path) -> None:
    """Files of certificates are read, and TLS is on then."""
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----", encoding="utf-8")
    target = _read(f"flightllm://localhost?tls_ca={tmp_path}/ca.pem&tls_name=db")
    assert target.uri.startswith("grpc+tls://")
    assert {"-----BEGIN CERTIFICATE-----", "db"} <= set(target.database.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("tsl=true", "unknown option 'tsl'"),
        ("tls=maybe", "neither true nor false"),
        ("timeout=soon", "not a number of seconds"),
        ("tls_ca=/nope.pem", "cannot be read as a PEM file"),
    ],
)
def test_mistakes(options: str, message: str) -> None:
    """A wrong option is an error that names it."""
    with pytest.raises(alchemy.exc.ArgumentError, match=message):
        _read(f"flightllm://localhost?{options}")


def test_two_logins() -> None:
    """A user beside a token is an error."""
    with pytest.raises(alchemy.exc.ArgumentError, match="both a user and a token"):
        _read("flightllm://bob@localhost?token=abc")
