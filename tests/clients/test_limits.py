"""Each limit is reached by a real client: the error names it and what to do, and it is counted."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from pathlib import Path

import pyarrow as pa
import pytest
from adbc_driver_manager import Error

from flightllm.config import LimitsConfig
from flightllm.datafusion.kernels import running_kernels, still_running
from flightllm.flight.limits import FlightLimits
from flightllm.flight.server import FlightSqlServer
from tests.servers import ServerProcess, ask, await_true, cursor_of, serving, time_over

ENDLESS = """SELECT count(*) FROM generate_series(1, 300000) a CROSS JOIN generate_series(1, 300000) b
WHERE a.value * b.value % 7 = 3 OR a.value < b.value - 5"""
"""A nested-loop join that takes minutes, and that DataFusion cannot stop."""
SKEWED = """SELECT count(*) FROM generate_series(1, 20000) a JOIN generate_series(1, 20000) b
ON a.value / 1000000 = b.value / 1000000"""
"""An equi-join of one key, which the plan does not tell: DataFusion makes all of its pairs without a stop."""
ASKING = "SELECT ai_gen('Of {n}?', n) FROM t"
JOINED = "SELECT a.value FROM generate_series(1, 2000000) a JOIN generate_series(1, 2000000) b ON a.value = b.value"
"""Holds about 40 MiB while it runs."""
SORTED = "SELECT value, md5(CAST(value AS VARCHAR)) AS m FROM generate_series(1, 3000000) ORDER BY m"
"""More than fits into 60 MiB."""


def _refused(server: FlightSqlServer, limit: str, sql: str, *words: str, seconds: float | None = None) -> None:
    """Check that a statement is refused for a limit: the words of its error, its count, and that the server goes on.

    With `seconds` it may take so long, which is over once its engine is asked.
    """
    before = server._core.refusals.counts()[limit]
    bound = _over_once_asked(server, seconds) if seconds else nullcontext()
    with cursor_of(server) as cursor, bound, pytest.raises(Error) as caught:
        ask(cursor, sql)
    assert [word for word in words if word not in str(caught.value)] == []
    assert server._core.refusals.counts()[limit] == before + 1
    with cursor_of(server) as cursor:
        assert ask(cursor, "SELECT 1") == [(1,)]


def _over_once_asked(server: FlightSqlServer, seconds: float) -> AbstractContextManager[None]:
    """Bound statements by a time that is over once the engine has another prompt."""
    engine = server._core.database.engine.inner  # type: ignore[attr-defined]
    sent = engine.sent
    return time_over(server, seconds, lambda: engine.sent > sent)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlightSqlServer]:
    """Serve under limits of which a few are small."""
    limits = LimitsConfig(
        sql_bytes=10_000,
        sql_terms=100,
        result_bytes=100_000,
        memory_bytes=60 << 20,
        spill_bytes=5 << 20,
        upload_bytes=10_000,
    )
    with serving(tmp_path_factory.mktemp("limits"), limits) as server:
        yield server


@pytest.mark.parametrize(
    ("limit", "sql", "words"),
    [
        ("sql_bytes", f"SELECT '{'x' * 20_000}'", ["[limits] sql_bytes = 10,000 is the most: upload the values"]),
        ("sql_terms", f"SELECT {'+'.join('1' * 200)}", ["199 operators", "[limits] sql_terms = 100 is the most"]),
        (
            "result_bytes",
            "SELECT * FROM generate_series(1, 1000000)",
            ["[limits] result_bytes = 100,000 is the most: ask for fewer rows or columns, or raise it"],
        ),
        ("spill_bytes", SORTED, ["[limits] spill_bytes", "raise the limit in the server's configuration"]),
        (
            "memory_bytes",
            f"SELECT count(*) FROM ({JOINED.replace('2', '9')})",
            ["[limits] memory_bytes"],
        ),
    ],
)
def test_statements(small: FlightSqlServer, limit: str, sql: str, words: list[str]) -> None:
    """The text, the rows, memory and disk of one statement are bounded."""
    _refused(small, limit, sql, *words)


def test_budgets(small: FlightSqlServer) -> None:
    """What a session's budget refuses is counted among the limits."""
    with cursor_of(small) as cursor:
        cursor.execute("SET flightllm.max_calls = 1")
        with pytest.raises(Error, match="max_calls"):
            ask(cursor, ASKING)
    assert small._core.refusals.counts()["budget"] == 1


def test_uploads(small: FlightSqlServer) -> None:
    """What one upload brings is bounded."""
    with cursor_of(small) as cursor, pytest.raises(Error, match=r"\[limits\] upload_bytes = 10,000 is the most: send"):
        cursor.adbc_ingest("big", pa.table({"a": range(10_000)}))
    assert small._core.refusals.counts()["upload_bytes"] == 1


def test_shared_memory(tmp_path: Path) -> None:
    """With one pool for all queries, one finds no room while another holds it, and does afterwards."""
    limits = LimitsConfig(server_memory_bytes=60 << 20)
    with serving(tmp_path, limits) as server:
        with cursor_of(server) as holding:
            holding.execute(f"SELECT value, repeat('wide ', 200) FROM ({JOINED})")  # more than is made ahead of it
            holding.fetchone()
            with cursor_of(server) as cursor, pytest.raises(Error, match=r"\[limits\] memory_bytes"):
                ask(cursor, f"SELECT count(*) FROM ({JOINED})")
            holding.adbc_cancel()

        def fits() -> bool:
            """Return whether DataFusion has let go of the other query's memory, a moment after it ended."""
            with cursor_of(server) as cursor, suppress(Error):
                return ask(cursor, f"SELECT count(*) FROM ({JOINED})") == [(2_000_000,)]
            return False

        await_true(fits)


def test_time_of_a_running_statement(tmp_path: Path) -> None:
    """A statement that runs too long is stopped, its place free again; the log of queries says why."""
    message = "[limits] statement_seconds = 0.3 is the most"
    with serving(tmp_path, latency_ms=100.0, window=1) as server:
        _refused(server, "statement_seconds", ASKING, "DeadlineExceeded", message, seconds=0.3)
        with cursor_of(server) as cursor:
            cursor.execute("SELECT status, error FROM system.queries WHERE sql LIKE '%ai_gen%' ORDER BY started_at")
            status, error = cursor.fetchall()[0]
        assert (status, "statement_seconds" in error) == ("failed", True)
        update = f"CREATE TABLE a AS {ASKING}"
        _refused(server, "statement_seconds", update, message, seconds=0.3)
        with cursor_of(server) as cursor:
            cursor.execute("SELECT count(*) FROM information_schema.tables WHERE table_name = 'a'")
            assert cursor.fetchone() == (0,)


def test_time_of_a_session(tmp_path: Path) -> None:
    """A session may allow itself less time than the server does, not more."""
    with serving(tmp_path, latency_ms=100.0, window=1) as server:
        for own, limit in (("0.2", "timeout"), ("100", "statement_seconds")):
            with cursor_of(server) as cursor, _over_once_asked(server, 0.3):
                cursor.execute(f"SET flightllm.timeout = {own}")
                with pytest.raises(Error, match=r"flightllm.timeout = 0.2|\[limits\] statement_seconds = 0.3"):
                    cursor.execute(ASKING).fetchall()
            assert server._core.refusals.counts()[limit] == 1


@pytest.mark.slow
def test_time_of_what_cannot_be_stopped(tmp_path: Path) -> None:
    """The client of a nested-loop join that DataFusion runs on with has its error in time."""
    with ServerProcess(tmp_path, 1, 1) as server:  # one that can be killed
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET flightllm.timeout = 0.5")
            with pytest.raises(Error, match=r"flightllm\.timeout = 0.5"):
                ask(cursor, ENDLESS)
        assert server.query("SELECT 1") == [(1,)]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are looked at in /proc")
def test_what_cannot_be_stopped_keeps_its_place(tmp_path: Path) -> None:
    """The client of a join has its error at once; the place is taken, and counted, until DataFusion's thread rests."""
    kernels: Mapping[int, int] = {}

    def joining() -> bool:
        """Return whether a thread of DataFusion's has not rested since the last look."""
        nonlocal kernels
        kernels = still_running(kernels) or running_kernels()
        return bool(still_running(kernels)) and server._core.slots.running == 1

    with serving(tmp_path) as server, cursor_of(server) as cursor:
        looks = iter([False, False])
        with (
            time_over(server, 60.0, lambda: next(looks, joining())),
            pytest.raises(Error, match=r"\[limits\] statement_seconds = 60"),
        ):
            ask(cursor, SKEWED)
        assert (server.load().left_behind, server.load().running) == (1, 1)
        assert ask(cursor, "SELECT 1") == [(1,)]
        await_true(lambda: not server.load().running)
        assert not still_running(kernels)
        assert server.load().left_behind == 0


def test_statements_at_once(tmp_path: Path) -> None:
    """With all places taken, a statement waits its time; the error says how many there are."""
    with serving(tmp_path, LimitsConfig(concurrent_queries=1), latency_ms=50.0, window=1) as server:
        with cursor_of(server) as running:
            running.execute(ASKING)
            running.fetchone()
            server._core.slots._wait_seconds = 0.1  # only now, as its own turn could take as long
            with cursor_of(server) as cursor, pytest.raises(Error, match=r"\[limits\] concurrent_queries = 1"):
                cursor.execute("SELECT 1")
        assert server._core.refusals.counts()["concurrent_queries"] == 1


def test_statements_that_wait(tmp_path: Path) -> None:
    """No more wait than may; one that is refused may come again."""
    with serving(tmp_path, LimitsConfig(concurrent_queries=1, queued_queries=1), latency_ms=50.0, window=1) as server:
        with ExitStack() as opened:
            running, waiting, late = (opened.enter_context(cursor_of(server)) for _ in range(3))
            running.execute(ASKING)
            running.fetchone()
            thread = threading.Thread(target=waiting.execute, args=("SELECT 1",))
            thread.start()
            await_true(lambda: server._core.slots.queued > 0)
            with pytest.raises(Error, match=r"\[limits\] queued_queries = 1 is the most: try again later"):
                late.execute("SELECT 1")
            running.adbc_cancel()
            thread.join(60)
            assert waiting.fetchone() == (1,)
        assert server._core.refusals.counts()["queued_queries"] == 1


def test_sessions(tmp_path: Path) -> None:
    """No more sessions are open than may; one not used for a while gives way, and a closed one at once."""
    with serving(tmp_path, LimitsConfig(sessions=2)) as server:
        with ExitStack() as opened:
            cursors = [opened.enter_context(cursor_of(server)) for _ in range(2)]
            for cursor in cursors:
                cursor.execute("SELECT 1")
            with (
                pytest.raises(Error, match=r"all sessions are in use; \[limits\] sessions = 2"),
                cursor_of(server) as c,
            ):
                c.execute("SELECT 1")
            server._core.sessions._limits = FlightLimits(sessions=2, idle_seconds=0.0)
            with cursor_of(server) as cursor:
                cursor.execute("SELECT 1")
                assert len(server._core.sessions) == 2
        # A driver's own requests, when it connects, are refused as well.
        assert server._core.refusals.counts()["sessions"] >= 1
        assert len(server._core.sessions) == 0


def test_sessions_expire(tmp_path: Path) -> None:
    """A session not used for long is closed; its client goes on in a new one."""
    with serving(tmp_path, LimitsConfig(session_seconds=1e-6)) as server, cursor_of(server) as cursor:
        cursor.execute("SET flightllm.cache = 'off'")
        cursor.execute("SHOW flightllm.cache")
        assert cursor.fetchall() == [("flightllm.cache", "on")]
        assert len(server._core.sessions) == 1
