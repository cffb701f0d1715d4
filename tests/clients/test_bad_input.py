"""Bad input against a real server process, through ADBC: a clear error each time, and the server serves on."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import adbc_driver_flightsql.dbapi as flight_sql
import pytest
from adbc_driver_manager import Error

SCRIPT = """
import json, sys
from pathlib import Path
from flightllm.config import Config, EngineConfig, RecoveryConfig, ServerConfig
from flightllm.flight.serve import serve
recovery = RecoveryConfig(on_engine_down="fail")
engine = EngineConfig(kind="fake", max_in_flight=4, options=json.loads(sys.argv[2]))
serve(Config(server=ServerConfig("127.0.0.1:0"), engine=engine, recovery=recovery, data_folder=Path(sys.argv[1])))
"""


class Server:
    """A server process with one table of 400 numbers, on a fake engine with the given options."""

    def __init__(self, folder: Path, **options: object) -> None:
        command = [sys.executable, "-c", SCRIPT, str(folder), json.dumps(options)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline() if self.process.stdout else ""
        self.uri = line.removeprefix("listening ").strip()
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE IF NOT EXISTS t AS SELECT * FROM generate_series(1, 400) AS g(n)")

    def connect(self) -> flight_sql.Connection:
        """Open a connection."""
        return flight_sql.connect(self.uri, autocommit=True)

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """Run a query on a connection of its own."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server whose engine answers at once."""
    server = Server(tmp_path_factory.mktemp("bad_input"))
    yield server
    server.stop()


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT ai_filtr('odd?', n) FROM t", ("ai_filtr", "did you mean ai_filter")),
        ("SELECT nosuch(n) FROM t", ("nosuch",)),
        ("SELECT ai_gen('x', m) FROM t", ("m", "t.n")),
        ("SELECT ai_gen('x', n, max_tokens => 'many') FROM t", ("max_tokens",)),
        ("SELECT ai_gen('x', n, on_error => 'explode') FROM t", ("on_error", "null", "struct", "fail")),
        ("SELECT ai_classify(n, ['a', 'b'], mlti => true) FROM t", ("mlti", "multi")),
        ("SELECT ai_filter() FROM t", ("ai_filter", "prompt")),
        ("SELECT ai_translate(n) FROM t", ("ai_translate", "lang")),
        ("SELECT ai_summarize(n, n, n, n) FROM t", ("ai_summarize",)),
        ("SELECT ai_filter('Is {m} odd?', n) FROM t", ("{m}", "fields: n")),
        ("SELECT ai_extract(n, '{\"type\": 3}') FROM t", ("schema",)),
        ("SELECT ai_extract(n, '{broken') FROM t", ("JSON",)),
        ("SELECT ai_classify(n, []) FROM t", ("label",)),
        ("SELECT ai_gen('x', n, model => 'gpt-9') FROM t", ("gpt-9", "demo")),
        ("SELECT n FROM nosuch", ("nosuch",)),
        ("SELEC n FROM t", ("selec",)),
        ("SELECT 'open FROM t", ("1:8",)),
        ("SELECT 1; SELECT 2", ("one statement",)),
        ("SELECT CAST('x' AS INT) FROM t WHERE ai_filter('odd?', n) OR true", ("x",)),
        ("SET flightllm.optimiser = 'off'", ("flightllm.optimizer",)),
        ("SET flightllm.optimizer = 'perhaps'", ("'on' or 'off'",)),
        ("SELECT n FROM t WHERE " + " OR ".join(f"n = {i}" for i in range(10_000)), ("sql_terms",)),
        (" UNION ALL ".join(["SELECT n FROM t"] * 5_000), ("sql_terms",)),
        ("SELECT '" + "x" * 2_000_000 + "'", ("sql_bytes",)),
    ],
)
def test_the_error_says_what_is_wrong(server: Server, sql: str, words: tuple[str, ...]) -> None:
    """The client gets an error with the words that help, no traceback, and the server answers the next query."""
    with pytest.raises(Error) as raised:
        server.rows(sql)
    message = str(raised.value)
    assert all(word.lower() in message.lower() for word in words), message
    assert "Traceback" not in message
    assert ".py" not in message
    assert server.rows("SELECT count(*) FROM t") == [(400,)]


def test_an_engine_that_dies_is_named_and_its_answers_are_kept(tmp_path: Path) -> None:
    """After a death in mid-query the same query, on a restarted server, asks only for what is missing."""
    server = Server(tmp_path, die_after=150)
    try:
        with pytest.raises(Error, match="fake"):
            server.rows("SELECT n, ai_gen('What of {n}?', n) FROM t")
        assert server.rows("SELECT count(*) FROM t") == [(400,)]
    finally:
        server.stop()
    server = Server(tmp_path)
    try:
        assert len(server.rows("SELECT n, ai_gen('What of {n}?', n) FROM t")) == 400
        ((calls, hits),) = server.rows("SELECT calls, cache_hits FROM system.queries WHERE calls > 0")
        assert (calls, hits) == (250, 150)
    finally:
        server.stop()


def test_a_client_that_vanishes_stops_its_query(tmp_path: Path) -> None:
    """A killed client's query ends as cancelled, long before it would have finished."""
    server = Server(tmp_path, latency_ms=50.0)
    script = f"""
import adbc_driver_flightsql.dbapi as d
cursor = d.connect({server.uri!r}, autocommit=True).cursor()
cursor.execute("SELECT ai_gen('What of {{n}}?', n) FROM t")
cursor.fetchone()
print("first", flush=True)
cursor.fetchall()
"""
    try:
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == "first\n"
            client.kill()
        sql = "SELECT status, calls FROM system.queries WHERE prompts_expected > 0"
        for _ in range(50):
            ((status, calls),) = server.rows(sql)
            if status != "running":
                break
            time.sleep(0.1)
        assert status == "cancelled"
        assert 0 < int(str(calls)) < 400
    finally:
        server.stop()


def test_two_clients_do_not_disturb_each_other(tmp_path: Path) -> None:
    """A quick query returns while a slow one runs, settings stay with their session, and both get all their rows."""
    server = Server(tmp_path, latency_ms=10.0)
    slow: list[tuple[object, ...]] = []
    try:
        thread = threading.Thread(target=lambda: slow.extend(server.rows("SELECT ai_gen('slow {n}', n) FROM t")))
        with server.connect() as connection, connection.cursor() as cursor:
            thread.start()
            cursor.execute("SET flightllm.optimizer = 'off'")
            cursor.execute("SELECT ai_gen('quick {n}', n) FROM t WHERE n <= 20")
            assert len(cursor.fetchall()) == 20
            assert thread.is_alive()
        thread.join()
        assert len(slow) == 400
        (operator,) = server.rows("SELECT sql FROM system.queries WHERE prompts_expected > 0")
        assert "slow" in str(operator)
    finally:
        server.stop()
