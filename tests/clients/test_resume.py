"""A server killed in mid-query has lost no answer: the same query on a new one goes on from there."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from flightllm.client import Client
from flightllm.errors import EngineUnavailableError
from tests.servers import ServerProcess, await_true

ROWS, WINDOW = 2_000, 16
SQL = "SELECT n, ai_gen('Tell of {number}', number => n) AS told FROM t"


@pytest.mark.slow
@pytest.mark.parametrize("sql", [SQL, f"SELECT unnest([1]), * FROM ({SQL})"], ids=["operator", "batch function"])
def test_killed_in_mid_query(tmp_path: Path, sql: str) -> None:
    """Nothing that was answered before `kill -9` is asked again, but what was in flight; all rows come in the end."""
    with ServerProcess(tmp_path, ROWS, WINDOW, halt_after=700, latency_ms=20) as first:
        thread = threading.Thread(target=fails, args=(first, sql))
        thread.start()
        await_true(lambda: kept_in(tmp_path) >= max(700, len(first.prompts())) - 2 * WINDOW)
        first.kill()
        thread.join(60)
        sent = len(first.prompts())
    kept = kept_in(tmp_path)
    assert 600 < sent - 2 * WINDOW <= kept <= sent < ROWS
    with ServerProcess(tmp_path, ROWS, WINDOW) as second:
        rows = second.query(sql)
        assert {row[-2] for row in rows} == set(range(1, ROWS + 1))
        assert all(row[-1] for row in rows)
        prompts = second.prompts()
        assert len(prompts) == sent + ROWS - kept
        assert len(set(prompts)) == ROWS
        assert second.query("SELECT calls, cache_hits FROM system.queries WHERE calls > 0") == [(ROWS - kept, kept)]


def kept_in(folder: Path) -> int:
    """Return how many answers are on disk."""
    with closing(sqlite3.connect(folder / "answers.sqlite")) as database:
        [(count,)] = database.execute("SELECT count(*) FROM answers").fetchall()
    return int(count)


def fails(server: ServerProcess, sql: str) -> None:
    """Run a query whose server is killed."""
    with Client(server.uri) as client:
        _, batches = client.query(sql)
        with pytest.raises(EngineUnavailableError):
            list(batches)
