"""Who may call, and which session a call belongs to."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from pyarrow import flight

from flightllm.access.login import Login
from flightllm.access.store import AccessStore
from flightllm.client import Client
from flightllm.config import AuthConfig, ServerConfig
from flightllm.errors import UnauthenticatedError
from flightllm.flight.auth import CallFactory
from flightllm.flight.messages import flight_message
from flightllm.flight.server import FlightSqlServer

SECRET = "the-secret"
QUERY = "SELECT settings() AS s"


@pytest.fixture
def guarded(database: Any, tmp_path: Path) -> Iterator[FlightSqlServer]:
    """Run a server that asks for a token."""
    file = tmp_path / "token"
    file.write_text(SECRET)
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0", token=f"file:{file}"))
    yield server
    server.drain(0)


def _basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode().rstrip("=")


def _run(uri: str, **headers: str) -> str:
    with Client(uri, headers) as client:
        rows = [row for batch in client.query(QUERY)[1] for row in batch.to_pylist()]
    return next(part for part in str(rows[0]["s"]).split(",") if part.startswith("optimizer="))


@pytest.mark.parametrize("authorization", ["Bearer " + SECRET, _basic("anybody:" + SECRET), _basic(":" + SECRET)])
def test_the_secret_opens(guarded: FlightSqlServer, authorization: str) -> None:
    """As bearer token, or as password of Basic credentials, whose padding Go clients leave away."""
    assert _run(guarded.uri, authorization=authorization) == "optimizer=on"


@pytest.mark.parametrize(
    "headers",
    [{}, {"authorization": "Bearer wrong"}, {"authorization": _basic("u:wrong")}, {"authorization": "Basic %%%"}],
)
def test_anything_else_is_refused(guarded: FlightSqlServer, headers: dict[str, str]) -> None:
    """No token, a wrong one, and what is no credential at all."""
    with pytest.raises(UnauthenticatedError):
        _run(guarded.uri, **headers)


def test_a_login_gets_a_token_of_its_own(guarded: FlightSqlServer) -> None:
    """Handshake answers Basic credentials by a bearer token that then opens."""
    client = flight.connect(guarded.uri)
    name, value = client.authenticate_basic_token("user", SECRET)
    assert name == b"authorization"
    assert value != f"Bearer {SECRET}".encode()
    assert _run(guarded.uri, authorization=value.decode()) == "optimizer=on"
    client.close()


def test_any_credentials_open_where_none_are_asked_for(server: FlightSqlServer) -> None:
    """Tools that insist on a user name may give any."""
    assert _run(server.uri, authorization=_basic("u:p")) == "optimizer=on"
    assert _run(server.uri, authorization="Bearer what") == "optimizer=on"


def test_settings_of_one_call(server: FlightSqlServer) -> None:
    """A header changes one call, and nobody else's."""
    assert _run(server.uri, **{"x-flightllm-optimizer": "off"}) == "optimizer=off"
    assert _run(server.uri) == "optimizer=on"


def test_headers_are_read_once() -> None:
    """Token, cookie and settings of a call."""
    call = CallFactory(Login(AccessStore(None), AuthConfig())).start_call(
        None, {"Cookie": ["a=b; flightllm_session=s1"], "x-flightllm-x": ["1"], "authorization": ["Bearer t"]}
    )
    assert (call.token, call.cookie, call.settings) == ("t", "s1", {"x": "1"})
    assert call.sending_headers() == {}


def _basic_auth(name: str, password: str) -> bytes:
    encoded: bytes = flight_message("BasicAuth", username=name, password=password).SerializeToString()
    return encoded


class _OldClient(flight.ClientAuthHandler):
    """Credentials as a payload of the handshake, as clients sent them before headers were used."""

    def __init__(self, name: str, password: str) -> None:
        super().__init__()
        self._payload = _basic_auth(name, password)
        self._token = b""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        """Send them and keep the token."""
        outgoing.write(self._payload)
        self._token = incoming.read()

    def get_token(self) -> bytes:
        """Return the token for a call."""
        return self._token


def test_credentials_as_a_payload(guarded: FlightSqlServer) -> None:
    """An old client logs in by a message in the handshake, and sends the token of the answer."""
    with flight.connect(guarded.uri) as client:
        client.authenticate(_OldClient("user", SECRET))
        assert list(client.list_actions())


@pytest.mark.parametrize("payload", [("user", "wrong"), ("nobody", ""), None])
def test_wrong_credentials_as_a_payload(guarded: FlightSqlServer, payload: tuple[str, str] | None) -> None:
    """Wrong ones are refused in the handshake, and what is no message; the server goes on."""
    given = b"\xff" if payload is None else _basic_auth(*payload)
    request = b"\x12" + bytes([len(given)]) + given  # HandshakeRequest.payload
    with grpc.insecure_channel(guarded.uri.removeprefix("grpc://")) as channel:
        handshake = channel.stream_stream("/arrow.flight.protocol.FlightService/Handshake")
        with pytest.raises(grpc.RpcError) as raised:
            list(handshake(iter([request])))
    assert raised.value.code() == (
        grpc.StatusCode.INVALID_ARGUMENT if payload is None else grpc.StatusCode.UNAUTHENTICATED
    )
    with flight.connect(guarded.uri) as client:
        client.authenticate(_OldClient("user", SECRET))


def test_a_token_that_nobody_gave(guarded: FlightSqlServer) -> None:
    """A made-up token in the old header opens nothing."""
    options = flight.FlightCallOptions(headers=[(b"auth-token-bin", b"made up")])
    with flight.connect(guarded.uri) as client, pytest.raises(flight.FlightUnauthenticatedError, match="not valid"):
        list(client.list_actions(options))
