"""Two clients that ask the same prompts at once pay for each once."""

import threading
from pathlib import Path
from typing import Any

import pytest

from flightllm.client import Client
from flightllm.errors import CancelledError
from tests.servers import ServerProcess, await_true

ROWS, WINDOW = 500, 16
SQL = "SELECT n, ai_gen('Tell of {number}', number => n) AS told FROM t"


def at_once(server: ServerProcess, *queries: str) -> list[list[tuple[Any, ...]]]:
    """Run queries at the same time, each in a session of its own, and return their rows."""
    barrier = threading.Barrier(len(queries))
    results: list[list[tuple[Any, ...]]] = [[] for _ in queries]

    def work(index: int) -> None:
        with server.connect() as connection, connection.cursor() as cursor:
            barrier.wait()
            cursor.execute(queries[index])
            results[index] = cursor.fetchall()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(queries))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


def test_same_prompts_at_once(tmp_path: Path) -> None:
    """Two sessions, whose queries come to the prompts in different ways, make one call for each together."""
    with ServerProcess(tmp_path, ROWS, WINDOW, latency_ms=20) as server:
        other = f"SELECT * FROM ({SQL}) AS x WHERE n > 0 AND told <> '' ORDER BY n DESC"
        first, second = at_once(server, SQL, other)
        assert len(first) == ROWS
        assert sorted(first) == sorted(second)
        assert len(server.prompts()) == len(set(server.prompts())) == ROWS
        counted = server.query("SELECT calls, cache_hits FROM system.queries WHERE rows = 500")
        assert sum(calls for calls, _ in counted) == sum(hits for _, hits in counted) == ROWS


@pytest.mark.slow
def test_baseline_shares_nothing(tmp_path: Path) -> None:
    """Without the cache each session asks for itself."""
    with ServerProcess(tmp_path, 50, WINDOW, latency_ms=20) as server:

        def work() -> None:
            with server.connect() as connection, connection.cursor() as cursor:
                cursor.execute("SET flightllm.cache = 'off'")
                cursor.execute(SQL)
                cursor.fetchall()

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(server.prompts()) == 100


@pytest.mark.slow
def test_failures_are_asked_by_each(tmp_path: Path) -> None:
    """An answer that failed for one is no answer for the other, which asks again."""
    with ServerProcess(tmp_path, 100, WINDOW, latency_ms=20, fail_containing="7") as server:
        first, second = at_once(server, SQL, SQL)
        assert sorted(first, key=str) == sorted(second, key=str)
        assert sum(told is None for _, told in first) == 19
        assert len(server.prompts()) == 100 + 19


@pytest.mark.slow
def test_owner_is_cancelled(tmp_path: Path) -> None:
    """When the one that asks is cancelled, the other asks what is left; only what was in flight is asked twice."""
    with ServerProcess(tmp_path, ROWS, WINDOW, halt_after=10 * WINDOW, latency_ms=20) as server:
        with Client(server.uri) as client:
            _, batches = client.query(SQL)

            def first() -> None:
                with pytest.raises(CancelledError):
                    list(batches)

            thread = threading.Thread(target=first)
            thread.start()
            await_true(lambda: len(server.prompts()) >= WINDOW)
            results: list[list[tuple[Any, ...]]] = []
            other = threading.Thread(target=lambda: results.append(server.query(SQL)))
            other.start()
            running = "SELECT count(*) FROM system.queries WHERE status = 'running' AND sql LIKE '%ai_gen(%FROM t'"
            await_true(lambda: len(server.prompts()) >= 10 * WINDOW and server.query(running) == [(2,)])
            client.cancel(client.query_id or "")
            thread.join(60)
            server.go_on()
            other.join(60)
        assert len(results[0]) == ROWS
        assert all(told for _, told in results[0])
        assert ROWS <= len(server.prompts()) <= ROWS + 2 * WINDOW
