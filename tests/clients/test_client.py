"""The command line's own client."""

import threading

import pyarrow as pa
import pytest

from flightllm.client import Client, Progress, Shortfall
from flightllm.config import ServerConfig
from flightllm.errors import (
    CancelledError,
    EngineUnavailableError,
    InvalidInputError,
    NotFoundError,
    UnauthenticatedError,
)
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database


def test_query(client: Client) -> None:
    """Schema first, then rows; the id is known while they come."""
    schema, batches = client.query("SELECT 1 AS a")
    assert schema.names == ["a"]
    assert client.query_id
    assert pa.Table.from_batches(batches)["a"].to_pylist() == [1]


def test_update(client: Client) -> None:
    """An update runs at once and has neither columns nor an id to follow."""
    schema, batches = client.query("CREATE TABLE t AS SELECT 1 AS a")
    assert (schema.names, list(batches), client.query_id) == ([], [], None)
    assert client.progress() is None


def test_messages_are_clean(client: Client) -> None:
    """What gRPC adds to a message is gone."""
    with pytest.raises(InvalidInputError) as caught:
        client.query("SELECT nope")
    assert "Detail" not in str(caught.value)
    assert "gRPC" not in str(caught.value)


def test_cancel_of_nothing(client: Client) -> None:
    """An unknown id is an error that says where ids are."""
    with pytest.raises(NotFoundError, match=r"system\.queries"):
        client.cancel("x")


def test_no_server() -> None:
    """A missing server is named, with what to do."""
    with Client("grpc://127.0.0.1:1") as client, pytest.raises(EngineUnavailableError, match="flightllm serve"):
        client.query("SELECT 1")


def test_progress(client: Client) -> None:
    """Counts model calls; unknown, not an error, where a query makes none."""
    list(client.query("SELECT 1 AS a")[1])
    assert client.progress() is None
    list(client.query("SELECT ai_gen('What of {a}?', a) FROM (VALUES ('x'), ('y')) AS t(a)")[1])
    assert client.progress() == Progress(2, 2)


def test_cancel(client: Client, server: FlightSqlServer) -> None:
    """Another client stops a query by its id."""
    client.query("CREATE TABLE numbers AS SELECT * FROM generate_series(1, 300) AS g(n)")
    batches = client.query("SELECT max(ai_gen('What of {n}?', n)) FROM numbers")[1]
    with Client(server.uri) as other:
        threading.Timer(0.3, other.cancel, (client.query_id,)).start()
        with pytest.raises(CancelledError):
            list(batches)


def test_cancel_of_what_has_ended(client: Client) -> None:
    """The status tells that there was nothing left to stop."""
    list(client.query("SELECT 1 AS a")[1])
    assert client.query_id is not None
    assert client.cancel(client.query_id) == "done"


def test_shortfall(client: Client) -> None:
    """A query without calls has none, and neither has an update."""
    assert client.shortfall() == Shortfall()
    list(client.query("SELECT 1 AS a")[1])
    assert client.shortfall() == Shortfall()
    client.query("CREATE TABLE t AS SELECT 1 AS a")
    assert client.shortfall() == Shortfall()


@pytest.mark.parametrize(
    "uri", ["127.0.0.1:31337", "http://127.0.0.1:31337", "grpc://127.0.0.1", "grpc://h:99999", "grpc://[::1", ""]
)
def test_an_address_of_another_form(uri: str) -> None:
    """What is no address is answered by the form of one."""
    with pytest.raises(InvalidInputError, match="write grpc://HOST:PORT"):
        Client(uri)


def test_tls_to_a_plain_server(server: FlightSqlServer) -> None:
    """A server that speaks no TLS is not one that does not run."""
    uri = server.uri.replace("grpc://", "grpc+tls://")
    with Client(uri) as client, pytest.raises(EngineUnavailableError, match=r"no TLS.*write grpc://HOST:PORT"):
        client.query("SELECT 1")


def test_tokens(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing token and a wrong one are told apart, each with where to give it."""
    monkeypatch.setenv("SECRET", "abcdef")
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0", token="env:SECRET"), functions=["ai_gen"])
    with Client(server.uri) as client, pytest.raises(UnauthenticatedError, match=r"asks who you are.*--token"):
        client.query("SELECT 1")
    wrong = {"authorization": "Bearer abcdeg"}
    with Client(server.uri, wrong) as client, pytest.raises(UnauthenticatedError, match=r"not accept this.*--token"):
        client.query("SELECT 1")
    server.drain(0)
