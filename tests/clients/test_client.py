"""The command line's own client."""

import threading

import pyarrow as pa
import pytest

from flightllm.client import Client
from flightllm.config import ServerConfig
from flightllm.errors import (
    CancelledError,
    EngineUnavailableError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
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
    """An update runs at once and has neither columns nor an id, but its work is known."""
    schema, batches = client.query(
        "CREATE TABLE t AS SELECT ai_gen('What of {a}?', a) AS b FROM (VALUES ('x')) AS v(a)"
    )
    assert (schema.names, list(batches), client.query_id) == ([], [], None)
    progress = client.progress()
    assert progress is not None
    assert (progress.done, progress.total, progress.asked) == (1, 1, 1)


def test_the_progress_of_a_repeated_update(client: Client, server: FlightSqlServer) -> None:
    """Of two updates of one text, in one session and in another, each client gets the work of its own."""
    text = "CREATE OR REPLACE TABLE t AS SELECT ai_gen('What of {a}?', a) AS b FROM (VALUES ('x')) AS v(a)"
    client.query(text)
    with Client(server.uri) as other:
        other.query(text)
        found = [one.progress() for one in (client, other)]
    assert [(one.asked, one.cached) for one in found if one is not None] == [(1, 0), (0, 1)]


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
    """Counts model calls, their tokens and rows; a query without calls has none."""
    assert client.progress() is None
    list(client.query("SELECT 1 AS a")[1])
    progress = client.progress()
    assert progress is not None
    assert (progress.rows, progress.done, progress.total) == (1, 0, 0)
    sql = "SELECT ai_gen('What of {a}?', a) FROM (VALUES ('x'), ('y')) AS t(a)"
    for asked in (2, 0):
        list(client.query(sql)[1])
        progress = client.progress()
        assert progress is not None
        assert (progress.done, progress.total, progress.asked, progress.cached) == (2, 2, asked, 2 - asked)
        assert (progress.tokens > 0, progress.cost, progress.rows) == (asked > 0, None, 2)


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


def test_reason(client: Client) -> None:
    """A query without calls lacks nothing, and neither does an update."""
    assert client.reason() is None
    list(client.query("SELECT 1 AS a")[1])
    assert client.reason() is None
    client.query("CREATE TABLE t AS SELECT 1 AS a")
    assert client.reason() is None


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


def test_calls_that_only_read(client: Client) -> None:
    """A client beside another one shares its session; with the header, neither SQL nor an upload changes a table."""
    client.query("CREATE TABLE kept AS SELECT 1::BIGINT AS a")
    client.query("SET flightllm.dialect = 'duckdb'")
    reader = client.beside({"x-flightllm-read_only": "on"})
    rows = pa.table({"a": [2]})
    with pytest.raises(PermissionDeniedError, match=r"^flightllm\.read_only is on"):
        reader.query("INSERT INTO kept VALUES (2)")
    with pytest.raises(PermissionDeniedError, match=r"^flightllm\.read_only is on"):
        reader.append(["kept"], rows.schema, rows.to_batches())
    shown = pa.Table.from_batches(reader.query("SHOW flightllm.dialect")[1])
    assert shown["value"].to_pylist() == ["duckdb"]
    assert client.append(["kept"], rows.schema, rows.to_batches()) == 1
