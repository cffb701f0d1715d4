"""Relational work and queries stop soon after they are cancelled, wherever they are."""

import threading
from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa
import pytest
from datafusion import RuntimeEnvBuilder, SessionConfig, SessionContext, udf

from flightllm.datafusion.run import Loop
from flightllm.errors import CancelledError, SqlError, UnsupportedError
from flightllm.session.database import Database
from flightllm.session.session import QueryResult
from tests.databases import ask, small_database
from tests.servers import await_true

LONG = "SELECT sum(value % 7) AS s FROM generate_series(1, 1000000000000)"
PATIENCE = 60.0
"""Seconds after which something hangs; far above what stopping takes, so that a busy machine fails no test."""


@pytest.fixture
def loop() -> Iterator[Loop]:
    """Return a running loop."""
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Return a database whose engine takes an hour for what a few rows ask."""
    database = small_database(tmp_path_factory.mktemp("slow"), {"latency_ms": 3_600_000})
    yield database
    database.close()


def stopped(result: QueryResult) -> BaseException | None:
    """Pull a result in another thread, cancel it once it runs, and return what came out of it."""
    raised: list[BaseException] = []

    def pull() -> None:
        try:
            list(result.batches)
        except CancelledError as error:
            raised.append(error)

    thread = threading.Thread(target=pull)
    thread.start()
    thread.join(0.3)  # it is somewhere in its work then, and stops just as well where it is not
    result.query.cancel()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    return raised[0] if raised else None


def test_a_kept_error_keeps_nothing_running(loop: Loop) -> None:
    """DataFusion stops once a query is cancelled, though the error that says so, and all that it knows, is kept."""
    calls = 0

    def seen(values: pa.Array) -> pa.Array:
        nonlocal calls
        calls += 1
        return values

    context = SessionContext(SessionConfig().with_target_partitions(2))
    context.register_udf(udf(seen, [pa.int64()], pa.int64(), "volatile", "seen"))
    context.register_udf(udf(lambda values: values, [pa.int64()], pa.int64(), "volatile", "same"))
    numbers = "SELECT value FROM generate_series(1, 1000000000000)"
    endless = f"SELECT sum(seen(value)) FROM ({numbers} UNION ALL {numbers}) AS q"
    with pytest.raises(CancelledError) as kept:
        list(loop.stream(context.sql(endless), lambda: calls > 3))

    def idle() -> bool:
        """Return whether it does nothing while another query calls Python a thousand times."""
        before = calls
        list(loop.stream(context.sql("SELECT sum(same(value)) FROM generate_series(1, 8000000)"), lambda: False))
        return calls == before

    await_true(idle)
    assert kept.value.__traceback__ is not None


def test_what_is_spilled_is_counted(loop: Loop) -> None:
    """The bytes that a frame's operators write to disk are added up; where memory suffices there are none."""
    config = SessionConfig().with_target_partitions(2).with_batch_size(1_024)
    groups = "SELECT s, count(*) FROM (SELECT {} AS s FROM generate_series(1, 400000)) GROUP BY s"
    for text, spills in (("value % 10", False), ("repeat('x', 20) || (value % 200000)::text", True)):
        memory = RuntimeEnvBuilder().with_fair_spill_pool(40_000_000).with_disk_manager_os()
        frame = SessionContext(config, memory).sql(groups.format(text))
        for _ in loop.stream(frame, lambda: False):
            pass
        assert (loop.spilled.value > 1_000_000) == spills


def test_batches(loop: Loop) -> None:
    """A frame's batches come in order, as pyarrow's."""
    frame = SessionContext().sql("SELECT value FROM generate_series(1, 20000) ORDER BY value")
    values = [v for batch in loop.stream(frame, lambda: False) for v in batch.column(0).to_pylist()]
    assert values == list(range(1, 20_001))


def test_failure_while_running(loop: Loop) -> None:
    """What DataFusion says of a query becomes an error of SQL."""
    frame = SessionContext().sql("SELECT CAST(v AS INT) FROM (VALUES ('1'), ('x')) AS t(v)")
    with pytest.raises(SqlError, match="x"):
        list(loop.stream(frame, lambda: False))


def test_cancelled_before(loop: Loop) -> None:
    """What was cancelled does not begin."""
    with pytest.raises(CancelledError):
        next(loop.stream(SessionContext().sql("SELECT 1"), lambda: True))


@pytest.mark.parametrize("ahead", [False, True])
def test_cancelled_after_a_quick_batch(loop: Loop, ahead: bool) -> None:
    """A query whose first batch comes at once and whose next takes for ever stops too."""
    cancelled = threading.Event()
    frame = SessionContext().sql(f"SELECT 1 AS s UNION ALL {LONG}")
    rows = loop.stream(frame, cancelled.is_set, ahead=ahead)
    assert next(rows).num_rows == 1
    threading.Timer(0.3, cancelled.set).start()
    with pytest.raises(CancelledError):
        next(rows)


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("condition", ["", "WHERE value > 9000", "LIMIT 9000"])
def test_ahead(loop: Loop, condition: str, ahead: bool) -> None:
    """Rows are the same whether or not the next batch is made while one is used."""
    context = SessionContext()
    expected = context.sql(f"SELECT value FROM generate_series(1, 30000) {condition}").to_pydict()["value"]
    batches = loop.stream(
        context.sql(f"SELECT value FROM generate_series(1, 30000) {condition}"), lambda: False, ahead=ahead
    )
    assert sorted(v for batch in batches for v in batch.column(0).to_pylist()) == sorted(expected)


def test_closed_early(loop: Loop) -> None:
    """Closing stops the work; the loop goes on for others."""
    context = SessionContext()
    with closing(loop.stream(context.sql("SELECT * FROM generate_series(1, 100000000)"), lambda: False)) as rows:
        next(rows)
    assert sum(b.num_rows for b in loop.stream(context.sql("SELECT 1"), lambda: False)) == 1


@pytest.mark.parametrize("settings", [{}, {"optimizer": "off"}])
@pytest.mark.parametrize(
    "sql",
    [
        LONG,
        f"SELECT ai_gen('x', s) FROM ({LONG})",
        "SELECT ai_gen('x', note) FROM people",
        "SELECT count(*) FROM people WHERE ai_filter('x', note)",
        "SELECT p.id FROM people p LEFT JOIN likes l ON p.id = l.person_id AND ai_filter('x', l.thing)",
    ],
    ids=["aggregate", "aggregate below a call", "call", "call below an aggregate", "call in a join"],
)
def test_cancel(database: Database, sql: str, settings: dict[str, str]) -> None:
    """A query stops while DataFusion computes or the engine thinks, and is recorded as cancelled."""
    result = database.session().execute(sql, settings=settings)
    assert stopped(result) is not None
    assert result.query.row()["status"] == "cancelled"
    assert ask(database.session(), "SELECT 1 AS one").rows == [{"one": 1}]


def test_closing_the_database_stops_queries(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A server that goes down stops what runs."""
    database = small_database(tmp_path_factory.mktemp("closing"), {"latency_ms": 3_600_000})
    result = database.session().execute("SELECT ai_gen('x', note) FROM people")

    def close() -> None:
        await_true(lambda: bool(database.engine.inner.sent))  # type: ignore[attr-defined]
        database.close()

    closing_it = threading.Thread(target=close)
    closing_it.start()
    with pytest.raises(CancelledError):
        list(result.batches)
    closing_it.join(PATIENCE)
    assert not closing_it.is_alive()


def test_impossible_physical_plan(database: Database) -> None:
    """A plan that DataFusion cannot make is refused as unsupported, not as a defect."""
    with pytest.raises(UnsupportedError, match="not supported: Unsupported LIMIT"):
        ask(database.session(), "SELECT id FROM people LIMIT (SELECT 1)")
