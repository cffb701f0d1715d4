"""Batch functions leave threads to everything else, however many queries and parts of queries there are."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.config.session_settings import Settings
from flightllm.datafusion.run import Batches
from flightllm.errors import CancelledError, LimitExceededError
from flightllm.execution.batch_query import BatchQuery
from flightllm.execution.planning import plan
from flightllm.operators.workers import Workers, parallel_parts
from flightllm.session.database import Database
from flightllm.sql.parsed_text import ParsedText
from tests.databases import ask, small_database
from tests.servers import await_true

PATIENCE = 60.0
"""Seconds after which something hangs."""
BATCH = pa.record_batch({"a": [1]})


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Database]:
    """Return a database whose engine takes an hour for what a few rows ask."""
    database = small_database(tmp_path, {"latency_ms": 3_600_000})
    yield database
    database.close()


def batches(stopped: threading.Event | None = None) -> Batches:
    """Make batches without end, and tell when they are closed."""
    try:
        while True:
            yield BATCH
    finally:
        if stopped:
            stopped.set()


def union(parts: int) -> str:
    """Return a query whose parts run side by side."""
    return " UNION ALL ".join(f"SELECT ai_gen('x{i}', note) AS g FROM people" for i in range(parts))


@pytest.mark.parametrize(
    "sql",
    ["SELECT ai_gen('x', note) FROM people", "SELECT unnest([1]), ai_gen('x', note) FROM people", union(5)],
    ids=["off", "fallback", "union"],
)
def test_plain_queries_go_on(slow: Database, sql: str) -> None:
    """A plain query comes back while thirty others wait for the engine in batch functions; all can be stopped."""
    settings = {} if "unnest" in sql else {"optimizer": "off"}
    results = [slow.session().execute(sql, settings=settings) for _ in range(30)]
    stopped: list[BaseException] = []

    def pull(number: int) -> None:
        try:
            list(results[number].batches)
        except CancelledError as error:
            stopped.append(error)

    threads = [threading.Thread(target=pull, args=(number,)) for number in range(len(results))]
    for thread in threads:
        thread.start()
    workers, parts = slow._services.workers, 5 if "UNION" in sql else 1
    await_true(lambda: (workers.size - workers._free) // parts + len(workers._queue) == len(results))
    plain = threading.Thread(
        target=ask, args=(slow.session(), "SELECT count(*), max(id) FROM people GROUP BY note"), daemon=True
    )
    plain.start()
    plain.join(PATIENCE)
    alive = plain.is_alive()
    for result in results:
        result.query.cancel()
    for thread in threads:
        thread.join(PATIENCE)
    assert not alive
    assert len(stopped) == len(results)


def test_waits_and_stops() -> None:
    """A query waits while all threads are taken, and can be cancelled meanwhile."""
    workers = Workers(2)
    cancelled = threading.Event()
    with closing(workers.paced(batches(), 2, lambda: False)) as wide:
        next(wide)
        threading.Timer(0.3, cancelled.set).start()
        with pytest.raises(CancelledError):
            next(workers.paced(batches(), 1, cancelled.is_set))
    assert next(workers.paced(batches(), 2, lambda: False)) is BATCH


def test_pause_takes_no_thread() -> None:
    """A client that has stopped reading a query of one part keeps no other waiting; closing reaches the query."""
    workers = Workers(1)
    closed = threading.Event()
    paused = workers.paced(batches(closed), 1, lambda: False)
    next(paused)
    assert next(workers.paced(batches(), 1, lambda: False)) is BATCH
    paused.close()
    assert closed.is_set()


def test_in_turn() -> None:
    """A query of many parts is not passed for ever by queries of one."""
    workers = Workers(2)
    stop = threading.Event()

    def narrow() -> None:
        for _ in workers.paced(batches(), 1, lambda: False):
            time.sleep(0)  # noqa: TID251 -- others have their turn
            if stop.is_set():
                return

    threads = [threading.Thread(target=narrow) for _ in range(4)]
    for thread in threads:
        thread.start()
    wide = workers.paced(batches(), 2, lambda: False)
    try:
        assert next(wide) is BATCH
    finally:
        wide.close()
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        ("SELECT ai_gen('x', note) FROM people", 1),
        ("SELECT ai_gen('x', note), ai_gen('y', ai_gen('z', note)) FROM people ORDER BY 1", 1),
        ("SELECT max(ai_gen('x', note)) FROM people p JOIN likes l ON p.id = l.person_id AND ai_filter('x', thing)", 1),
        (union(3), 3),
        (f"SELECT count(*) FROM ({union(4)}) WHERE g > ''", 4),
        (f"SELECT upper(g), ai_gen('x', g) FROM ({union(2)}) ORDER BY 1", 4),
        ("SELECT ai_gen('x', n) FROM (SELECT note AS n FROM people UNION ALL SELECT name FROM people LIMIT 9)", 1),
    ],
)
def test_parts(slow: Database, sql: str, parts: int) -> None:
    """Only what is merged runs side by side."""
    query = plan(ParsedText(sql), slow._services, Settings(optimizer=False))
    assert isinstance(query, BatchQuery)
    assert parallel_parts(query._planned.execution_plan(), query.extracted.calls) == parts


def test_too_many_parts(tmp_path: Path) -> None:
    """More parts than there are threads are refused, with a reason; with operators there is no limit."""
    database = small_database(tmp_path)
    many = union(database._services.workers.size + 1)
    with pytest.raises(LimitExceededError, match="parts of a UNION"):
        ask(database.session(), many, optimizer="off")
    assert ask(database.session(), many).table.num_rows == 9 * (database._services.workers.size + 1)
    database.close()


def test_threads_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most threads may block, and never all; the environment's number of threads counts."""
    monkeypatch.delenv("TOKIO_WORKER_THREADS", raising=False)
    assert Workers.of_process().size == 48
    monkeypatch.setenv("TOKIO_WORKER_THREADS", "8")
    assert 1 <= Workers.of_process().size <= 6
