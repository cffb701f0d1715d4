"""Clients that make the server wait hold no places: another statement starts at once, on a real server."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from flightllm.config import LimitsConfig
from flightllm.flight.messages import pack, sql_message
from flightllm.flight.server import FlightSqlServer
from tests.servers import ask, await_true, cursor_of, serving

_ONE = pa.schema([("a", pa.int64())])
_WIDE = "SELECT l.n AS a, repeat('x', 1000) AS b FROM t AS l CROSS JOIN t AS r"
"""A million rows of 1 KB."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FlightSqlServer]:
    """Serve with two places, and wait for a place only shortly."""
    with serving(tmp_path, LimitsConfig(concurrent_queries=2, queue_seconds=20.0)) as server:
        yield server


@contextmanager
def _upload(server: FlightSqlServer, table: str) -> Iterator[Any]:
    """Begin an upload of one row, and end it with a second row."""
    message = sql_message("CommandStatementIngest", table=table)
    message.table_definition_options.if_not_exist = 1
    message.table_definition_options.if_exists = 1
    with flight.connect(server.uri) as client:
        writer, _ = client.do_put(flight.FlightDescriptor.for_command(pack(message)), _ONE)
        writer.write_batch(pa.record_batch({"a": [1]}, schema=_ONE))
        yield writer
        writer.write_batch(pa.record_batch({"a": [2]}, schema=_ONE))
        writer.close()


@contextmanager
def _reader(server: FlightSqlServer, sql: str) -> Iterator[Any]:
    """Read the first batch of a result, and no more inside the block."""
    with flight.connect(server.uri) as client:
        command = flight.FlightDescriptor.for_command(pack(sql_message("CommandStatementQuery", query=sql)))
        reader = client.do_get(client.get_flight_info(command).endpoints[0].ticket)
        next(reader)
        yield reader
        reader.cancel()


def test_uploads_that_wait_keep_nobody_out(server: FlightSqlServer) -> None:
    """More uploads than places wait for their clients; others run meanwhile, and each upload stores its rows."""
    slots = server._core.slots
    with cursor_of(server) as cursor:
        with ExitStack() as open_uploads:
            for number in range(5):
                open_uploads.enter_context(_upload(server, f"up{number}"))
            await_true(lambda: slots.paused == 5)
            assert ask(cursor, "SELECT 1") == [(1,)]
            assert slots.queued == 0
        assert [ask(cursor, f"SELECT sum(a) FROM up{number}") for number in range(5)] == [[(3,)]] * 5
    await_true(lambda: not slots.running)


@pytest.mark.slow
def test_slow_readers_keep_nobody_out(server: FlightSqlServer) -> None:
    """More unread results than places wait for their clients; few bytes wait for them, and a reader can go on."""
    slots = server._core.slots
    with cursor_of(server) as cursor, ExitStack() as open_results:
        readers = [open_results.enter_context(_reader(server, _WIDE)) for _ in range(5)]
        await_true(lambda: slots.paused == 5)
        assert ask(cursor, "SELECT 1") == [(1,)]
        assert server._core.waiting.users == 1
        for reader in readers:
            for _ in range(20):
                assert next(reader).data.num_rows
    await_true(lambda: not slots.running and not server._core.waiting.users)
