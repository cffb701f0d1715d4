"""The query log: counted from several threads, bounded, and readable as tables while queries run."""

import threading
from typing import Any

import pytest

from flightllm.catalog import QUERY_ONLY, Catalog
from flightllm.config import LimitsConfig
from flightllm.errors import NotFoundError
from flightllm.observe.model_calls import MOST_SITES
from flightllm.observe.query_log import QueryLog
from flightllm.observe.query_record import CancelToken, QueryRecord


def test_progress_and_outcome_are_visible_in_sql() -> None:
    """A running query shows its counters so far, summed over its call sites; a finished one stays as it ended."""
    log = QueryLog()
    catalog = Catalog(LimitsConfig(), log)
    record = log.start("SELECT ai_gen('x', a) FROM t")
    first, second = record.call_site("ai_gen", "ai_gen('x', a)"), record.call_site("ai_filter", "ai_filter('y')")
    first.add(prompts_expected=10, calls=2, prompt_tokens=100, cached_tokens=60)
    second.add(calls=1, failed_rows=1)
    sql = (
        "SELECT q.status, q.calls, q.prompts_expected, q.failed_rows, q.rows, c.call_site, c.function, c.calls AS own "
        "FROM system.queries q JOIN system.ai_calls c ON q.query_id = c.query_id ORDER BY c.call_site"
    )
    rows = catalog.context().sql_with_options(sql, QUERY_ONLY).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("running", 3, 10, 1, 0, 0, "ai_gen", 2),
        ("running", 3, 10, 1, 0, 1, "ai_filter", 1),
    ]
    record.add_rows(5)
    record.finish("failed", error="the engine is gone")
    record.finish("cancelled")
    row = log.snapshot("queries").to_pylist()[0]
    assert (row["status"], row["rows"], row["error"]) == ("failed", 5, "the engine is gone")
    assert row["seconds"] == log.snapshot("queries").to_pylist()[0]["seconds"]
    assert row["started_at"].utcoffset().total_seconds() == 0


def test_schemas_hold() -> None:
    """Snapshots have the declared schemas, empty ones too."""
    log = QueryLog()
    for _ in range(2):
        assert {name: log.snapshot(name).schema for name in log.schemas} == dict(log.schemas)
        log.start("SELECT 1").call_site("f", "f()")


def test_history_is_bounded_and_running_queries_stay() -> None:
    """The oldest finished queries are forgotten; a running one never is."""
    log = QueryLog(history=3)
    running = log.start("running")
    for number in range(10):
        log.start(str(number)).finish("done", rows=number)
    assert log.running() == [running]
    assert log.snapshot("queries")["sql"].to_pylist() == ["7", "8", "9", "running"]
    with pytest.raises(NotFoundError, match="no query 'x'"):
        log.get("x")


def test_a_statement_looks_at_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are open, beginning and ending one does not go through them."""
    log, asked = QueryLog(), set()
    waiting = [log.plan("SELECT 1") for _ in range(50)]

    def counted(record: QueryRecord, name: str) -> Any:
        asked.add(id(record))
        return object.__getattribute__(record, name)

    with monkeypatch.context() as patched:
        patched.setattr(QueryRecord, "__getattribute__", counted)
        for _ in range(10):
            log.start("SELECT 2").finish("done")
    assert not asked & set(map(id, waiting))
    assert log.running() == waiting
    assert log.totals().statements["query", "done"] == 10


def test_clock_waits_for_the_first_pull() -> None:
    """A planned query takes no time until it begins; closed before that, it took none."""
    log = QueryLog()
    record, unread = log.plan("SELECT 1"), log.plan("SELECT 2")
    assert [(row["status"], row["seconds"]) for row in log.snapshot("queries").to_pylist()] == [("planned", 0.0)] * 2
    assert log.running() == [record, unread]
    planned_at = record.row()["started_at"]
    record.begin()
    unread.finish("cancelled")
    assert (record.row()["status"], unread.row()["seconds"]) == ("running", 0.0)
    assert record.row()["seconds"] > 0
    assert record.row()["started_at"] >= planned_at
    record.finish("done")
    record.begin()
    assert record.row()["status"] == "done"


def test_long_texts_are_cut() -> None:
    """What is remembered of a query is small, however long its text was."""
    record = QueryLog().start("x" * 1_000_000)
    record.call_site("f", "y" * 1_000_000)
    record.finish("failed", error="z" * 1_000_000)
    kept = [record.row()["sql"], record.row()["error"], record.call_rows()[0]["text"]]
    assert [len(text) for text in kept] == [16_385] * 3
    assert all(text.endswith("…") for text in kept)


def test_a_callers_event_cancels() -> None:
    """A query can be given the event that stops it, before anybody can see the query."""
    event = CancelToken()
    record = QueryLog().start("SELECT 1", event)
    record.cancel()
    assert event.is_set()


def test_cancel_reaches_the_runner() -> None:
    """Cancelling by id sets the event that the runner polls."""
    log = QueryLog()
    record = log.start("SELECT 1")
    log.get(record.query_id).cancel()
    assert record.cancelled.is_set()
    assert record.status == "running"


def test_counting_and_reading_from_threads() -> None:
    """Counts from several threads add up while other threads read the tables through contexts of their own."""
    log = QueryLog()
    catalog = Catalog(LimitsConfig(), log)
    call = log.start("SELECT 1").call_site("f", "f()")

    def count() -> None:
        for _ in range(2_000):
            call.add(calls=1, prompt_tokens=3)

    def look() -> None:
        for _ in range(10):
            catalog.context().sql_with_options("SELECT sum(calls) FROM system.ai_calls", QUERY_ONLY).collect()

    threads = [threading.Thread(target=target) for target in (count, count, look, look)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (call.counts()["calls"], call.counts()["prompt_tokens"]) == (4_000, 12_000)


def test_unknown_counter_is_an_error() -> None:
    """A misspelt counter is a defect and fails at once."""
    with pytest.raises(KeyError):
        QueryLog().start("SELECT 1").call_site("f", "f()").add(cals=1)


def test_no_counter_of_a_call_site_falls() -> None:
    """With more running call sites than have figures of their own, each scrape counts each site where the last did.

    Statements begin, run and end in other threads meanwhile, in another order than they began.
    """
    log = QueryLog()

    def ask(number: int) -> None:
        records = [log.start(f"SELECT {number}, {turn}") for turn in range(60)]
        sites = [record.call_site("ai_gen", f"ai_gen('{number} {turn}')") for turn, record in enumerate(records)]
        for _ in range(3):
            for site in sites:
                site.add(calls=1, prompt_tokens=10)
        for record in reversed(records):
            record.finish("done")

    def counts() -> dict[tuple[str, str, str], list[int]]:
        return {key: list(found) for key, found in log.totals().model_calls.sites.items()}

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    before, fallen = counts(), list[object]()
    while any(thread.is_alive() for thread in threads):
        now = counts()
        fallen += [key for key, found in before.items() if any(map(int.__lt__, now.get(key, [0] * 5), found))]
        before = now
    assert fallen == []
    assert sum(found[0] for found in counts().values()) == 8 * 60 * 3


def test_running_sites_keep_their_places() -> None:
    """A site that a scrape counted by itself is not counted under the others when other statements end before it."""
    log = QueryLog()
    records = [log.start(f"SELECT {number}") for number in range(MOST_SITES + 20)]
    sites = [record.call_site("ai_gen", f"ai_gen('{at}')") for at, record in enumerate(records)]
    for site in sites:
        site.add(calls=1)
    before = log.totals().model_calls.sites
    for record in reversed(records):
        record.finish("done")
        after = log.totals().model_calls.sites
        assert all(after[key][0] >= found[0] for key, found in before.items())
