"""Uploads whose client stalls, is cancelled or goes: their places are given back, and nothing half-sent is stored."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from flightllm.config import LimitsConfig, RecoveryConfig, ServerConfig
from flightllm.flight.limits import FlightLimits
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.databases import open_database
from tests.flight_messages import descriptor
from tests.servers import await_true, time_over

BATCH = pa.record_batch({"a": [1, 2]})
CREATE = {"if_not_exist": 1, "if_exists": 1}
CLIENT = """
import sys
import pyarrow as pa
from pyarrow import flight
batch = pa.record_batch({"a": [1, 2]})
client = flight.connect(sys.argv[1])
writer, _ = client.do_put(flight.FlightDescriptor.for_command(bytes.fromhex(sys.argv[2])), batch.schema)
writer.write_batch(batch)
print("sent", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Any]:
    """Return a function that runs a server with two places."""
    opened: list[tuple[FlightSqlServer, Database]] = []

    def run(stalled_seconds: int = 0) -> tuple[FlightSqlServer, Database]:
        given = LimitsConfig(concurrent_queries=2)
        database = open_database(tmp_path, limits=given)
        bounds = FlightLimits.of(given, RecoveryConfig(stalled_seconds=stalled_seconds))
        server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), given, flight_limits=bounds)
        opened.append((server, database))
        return opened[-1]

    yield run
    for server, database in opened:
        server.drain(0)
        database.close()


def command(table: str) -> flight.FlightDescriptor:
    """Return the command that creates a table."""
    return descriptor("CommandStatementIngest", table=table, table_definition_options=CREATE)


def begin(client: flight.FlightClient, table: str) -> Any:
    """Send one batch of an upload."""
    writer, _ = client.do_put(command(table), BATCH.schema)
    writer.write_batch(BATCH)
    return writer


def records(database: Database) -> list[dict[str, Any]]:
    """Return the records of uploads."""
    return [record.row() for record in database.queries._all() if record.kind == "ingest"]


def tables(database: Database) -> list[str]:
    """Return the names of tables there are."""
    return [info.name.name for info in database.catalog.tables() if info.name.schema == "public"]


@pytest.mark.parametrize(("status", "message"), [("failed", "statement_seconds"), ("cancelled", "stalled_seconds")])
def test_a_client_that_stalls(serve: Any, status: str, message: str) -> None:
    """Its place is given back while it is still there; it is told once it goes on, and nothing is stored."""
    server, database = serve()
    over = time_over(server, 0.5, lambda: len(records(database)) == 2) if status == "failed" else nullcontext()
    with flight.connect(server.uri) as client, over:
        writers = [begin(client, table) for table in "bc"]
        await_true(lambda: len(records(database)) == 2)
        if status == "cancelled":  # not earlier, as beginning could take as long
            object.__setattr__(server._core.limits, "stalled_seconds", 1.0)
        await_true(lambda: server._core.slots.running == 0)
        assert [row["status"] for row in records(database)] == [status] * 2
        for writer in writers:
            with pytest.raises(pa.ArrowException, match=message):
                send_rest(writer)
        assert tables(database) == []


def send_rest(writer: Any) -> None:
    """Send another batch and the end, and have the answer."""
    try:
        writer.write_batch(BATCH)
        writer.done_writing()
    finally:
        writer.close()


def test_an_upload_that_is_cancelled(serve: Any) -> None:
    """Cancelled by its id while its client is silent, it ends at once; what comes after is not stored."""
    server, database = serve()
    with flight.connect(server.uri) as client:
        writer = begin(client, "b")
        await_true(lambda: len(records(database)) == 1)
        database.queries.get(records(database)[0]["query_id"]).cancel()
        await_true(lambda: server._core.slots.running == 0)
        assert [row["status"] for row in records(database)] == ["cancelled"]
        with pytest.raises(pa.ArrowCancelled):
            send_rest(writer)
        assert tables(database) == []


def test_a_client_that_is_killed(serve: Any) -> None:
    """Nothing is stored of an upload whose client dies before its end."""
    server, database = serve()
    arguments = [server.uri, command("b").command.hex()]
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "sent\n"
        await_true(lambda: len(records(database)) == 1)
        process.send_signal(signal.SIGKILL)
        process.wait()
    await_true(lambda: server._core.slots.running == 0)
    assert [row["status"] for row in records(database)] == ["cancelled"]
    assert tables(database) == []


def test_a_whole_upload(serve: Any) -> None:
    """Sent with pauses shorter than the limit, an upload is stored as a whole."""
    server, database = serve(stalled_seconds=30)
    with flight.connect(server.uri) as client, closing(begin(client, "b")) as writer:
        await_true(lambda: len(records(database)) == 1)
        writer.write_batch(BATCH)
        writer.done_writing()
    assert [row["status"] for row in records(database)] == ["done"]
    assert database.catalog.context().sql("SELECT count(*) AS n FROM b").to_pydict() == {"n": [4]}
