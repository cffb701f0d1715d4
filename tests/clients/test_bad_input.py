"""Bad input against a real server process, through ADBC: a clear error each time, and the server serves on."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from adbc_driver_manager import Error

from tests.servers import ServerProcess, await_true

ROWS, WINDOW = 400, 4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Run a server whose engine answers at once."""
    with ServerProcess(tmp_path_factory.mktemp("bad_input"), ROWS, WINDOW) as server:
        yield server


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
        ("SELECT ai_filter('Is {m} as odd as {k}?', n) FROM t", ("{m}", "fields: n")),
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
def test_the_error_says_what_is_wrong(server: ServerProcess, sql: str, words: tuple[str, ...]) -> None:
    """The client gets an error with the words that help, no traceback, and the server answers the next query."""
    with pytest.raises(Error) as raised:
        server.query(sql)
    message = str(raised.value)
    assert all(word.lower() in message.lower() for word in words), message
    assert "Traceback" not in message
    assert ".py" not in message
    assert server.query("SELECT count(*) FROM t") == [(400,)]


@pytest.mark.slow
def test_an_engine_that_dies_is_named_and_its_answers_are_kept(tmp_path: Path) -> None:
    """After a death in mid-query the same query, on a restarted server, asks only for what is missing."""
    with ServerProcess(tmp_path, ROWS, WINDOW, die_after=150) as server:
        with pytest.raises(Error, match="fake"):
            server.query("SELECT n, ai_gen('What of {n}?', n) FROM t")
        assert server.query("SELECT count(*) FROM t") == [(400,)]
    with ServerProcess(tmp_path, ROWS, WINDOW) as server:
        assert len(server.query("SELECT n, ai_gen('What of {n}?', n) FROM t")) == 400
        ((calls, hits),) = server.query("SELECT calls, cache_hits FROM system.queries WHERE calls > 0")
        assert (calls, hits) == (250, 150)


@pytest.mark.slow
def test_a_client_that_vanishes_stops_its_query(tmp_path: Path) -> None:
    """A killed client's query ends as cancelled, long before it would have finished."""
    slow = ServerProcess(tmp_path, ROWS, WINDOW, latency_ms=50)
    script = f"""
import adbc_driver_flightsql.dbapi as d
cursor = d.connect({slow.uri!r}, autocommit=True).cursor()
cursor.execute("SELECT ai_gen('What of {{n}}?', n) FROM t")
cursor.fetchone()
print("first", flush=True)
cursor.fetchall()
"""
    with slow as server:
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == "first\n"
            client.kill()
        sql = "SELECT status, calls FROM system.queries WHERE prompts_expected > 0"
        await_true(lambda: server.query(sql)[0][0] != "running")
        ((status, calls),) = server.query(sql)
        assert status == "cancelled"
        assert 0 < int(str(calls)) < 400


@pytest.mark.slow
def test_two_clients_do_not_disturb_each_other(tmp_path: Path) -> None:
    """A quick query returns while a slow one runs, settings stay with their session, and both get all their rows."""
    slow: list[tuple[object, ...]] = []
    with ServerProcess(tmp_path, ROWS, WINDOW, latency_ms=10) as server:
        thread = threading.Thread(target=lambda: slow.extend(server.query("SELECT ai_gen('slow {n}', n) FROM t")))
        with server.connect() as connection, connection.cursor() as cursor:
            thread.start()
            cursor.execute("SET flightllm.optimizer = 'off'")
            cursor.execute("SELECT ai_gen('quick {n}', n) FROM t WHERE n <= 20")
            assert len(cursor.fetchall()) == 20
            assert thread.is_alive()
        thread.join()
        assert len(slow) == 400
        (operator,) = server.query("SELECT sql FROM system.queries WHERE prompts_expected > 0")
        assert "slow" in str(operator)
