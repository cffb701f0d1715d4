"""The command line's own client."""

import pyarrow as pa
import pytest

from flightllm.client import Client
from flightllm.errors import EngineUnavailableError, InvalidInputError, NotFoundError


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


def test_progress_of_a_server_without_counts(client: Client) -> None:
    """Progress is unknown, not an error, where it cannot be asked for."""
    list(client.query("SELECT 1 AS a")[1])
    assert client.progress() is None
