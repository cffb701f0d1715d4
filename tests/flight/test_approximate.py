"""Approximate aggregates over ADBC: waves come while the query runs; cancelling, row filters, deferred statements."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from flightllm.config import ServerConfig
from flightllm.flight.server import FlightSqlServer
from tests.databases import open_database
from tests.endpoints import Body, Endpoint, Reply, chat, endpoint_of

dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")
ROWS = 1_000
TRUTH = ROWS // 4
_SECONDS = 30.0
COUNT = "approx_ai_count('Good? {t}', t, within => 0.08"


class Gate:
    """An endpoint that answers some prompts, and holds the others until it is opened."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.opened = threading.Event()
        self.held = threading.Event()

    def __call__(self, path: str, body: Body, number: int) -> Reply:
        """Answer Yes for each fourth row."""
        del path
        if number >= self.free:
            self.held.set()
            self.opened.wait(_SECONDS)
        words = str(body["messages"]).replace("\\n", " ").split("row")[-1]
        digits = "".join(one for one in words[:8] if one.isdigit())
        return chat("Yes" if int(digits) % 4 == 0 else "No")


@pytest.fixture
def gate() -> Gate:
    """Return an endpoint that lets everything pass."""
    return Gate(10**9)


@pytest.fixture
def place(gate: Gate, tmp_path: Path) -> Iterator[tuple[str, Endpoint]]:
    """Serve a table whose model is behind the gate; return the address and the endpoint."""
    with endpoint_of(gate) as endpoint, closing(open_database(tmp_path)) as database:
        session = database.session()
        session.update(f"CREATE MODEL far OPTIONS (engine 'openai', model 'm', base_url '{endpoint.url}')")
        session.update(
            f"CREATE TABLE r AS SELECT 'row' || value AS t, value % 2 AS g FROM generate_series(0, {ROWS - 1})"
        )
        server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), login=database.access.login)
        try:
            yield f"grpc://127.0.0.1:{server.port}", endpoint
        finally:
            gate.opened.set()
            server.drain(0)


def test_the_first_wave_comes_before_the_last_prompt_is_answered(place: tuple[str, Endpoint], gate: Gate) -> None:
    """The client has an interval while the second wave waits; more intervals follow, each within the one before."""
    gate.free = 64
    with dbapi.connect(place[0]) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {COUNT}, model => far, stream => true) AS n FROM r")
        reader = cursor.fetch_record_batch()
        first = reader.read_next_batch().to_pylist()
        assert not gate.opened.is_set()
        gate.opened.set()
        told = [row["n"] for row in (*first, *(row for batch in reader for row in batch.to_pylist()))]
    assert [row["final"] for row in told] == [False] * (len(told) - 1) + [True]
    assert len(told) > 2
    assert told[0]["asked"] == 64
    for before, after in itertools.pairwise(told):
        assert before["low"] <= after["low"] <= TRUTH <= after["high"] <= before["high"]
    assert len(place[1].bodies) == told[-1]["asked"] < ROWS


def test_a_cancelled_query_sends_no_further_wave(place: tuple[str, Endpoint], gate: Gate) -> None:
    """A client that stops ends the query; a later run goes on with the answers that came."""
    gate.free = 64
    with dbapi.connect(place[0]) as connection:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {COUNT}, model => far, stream => true) AS n FROM r")
            assert cursor.fetch_record_batch().read_next_batch().num_rows
            assert gate.held.wait(_SECONDS)
            cursor.adbc_cancel()
        gate.opened.set()
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {COUNT}, model => far, bounds => true) AS n FROM r")
            [(found,)] = cursor.fetchall()
    assert found["low"] <= TRUTH <= found["high"]
    prompts = [str(body["messages"]) for body in place[1].bodies]
    assert len(set(prompts)) == found["asked"]


def test_calls_are_in_the_log(place: tuple[str, Endpoint]) -> None:
    """`system.ai_calls` has the prompts of all groups."""
    with dbapi.connect(place[0]) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT g, {COUNT}, model => far, bounds => true) AS n FROM r GROUP BY g ORDER BY g")
        rows = cursor.fetchall()
        cursor.execute("SELECT function, answered, rows FROM system.ai_calls WHERE function = 'approx_ai_count'")
        [(_, answered, _)] = cursor.fetchall()
    assert answered == sum(row[1]["asked"] for row in rows) == len(place[1].bodies)
    assert rows[0][1]["low"] <= TRUTH <= rows[0][1]["high"]
    assert rows[1][1]["low"] == 0
