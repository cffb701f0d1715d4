"""Asking: each prompt once, failures by `on_error`, what is never sent, stopping, and how many batches are open."""

import json
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from flightllm.config import Config, EngineConfig
from flightllm.engines.fake.engine import FakeEngine, FakeOptions
from flightllm.errors import BudgetExceededError, EngineError
from flightllm.llm.cost import Work
from flightllm.llm.engine import Completion, Request
from flightllm.operators.batches import PromptBatch
from flightllm.operators.call_context import LimitTracker, Ranking, all_at_once
from flightllm.operators.call_executor import BatchWindow
from flightllm.operators.prompts import OpenBatch
from flightllm.plan.stages import BoundStep, Condition
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import SMALL, ask, ask_both, canonical, rows, small_database
from tests.endpoints import Body, Reply, answer, endpoint_of
from tests.using_engines import Scripted, using

FAILING = {"fail_containing": "tea"}
NOTHING_TO_LEARN = all_at_once(1)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return where the engine writes what it is sent."""
    return tmp_path / "prompts.jsonl"


@pytest.fixture
def database(tmp_path: Path, log: Path) -> Database:
    """Return a database whose engine is slow enough for a window of prompts in flight, and keeps them."""
    return small_database(tmp_path / "data", {"log_path": str(log), "latency_ms": 5})


@pytest.fixture
def session(database: Database) -> Session:
    """Return a session."""
    return database.session()


def sent(log: Path) -> list[str]:
    """Return the prompts the engine was sent."""
    return [json.loads(line)["prompt"] for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []


def test_each_prompt_once(session: Session, log: Path) -> None:
    """Equal prompts are sent once, in one call site or several, also while the first is in flight."""
    many = "SELECT p.note, q.id FROM people p CROSS JOIN people q"
    ran = ask(session, f"SELECT ai_gen('x', note) AS a, ai_gen('x', note) AS b, upper(ai_gen('x', note)) FROM ({many})")
    assert ran.table.num_rows == 81
    assert len(sent(log)) == len(set(sent(log))) == ran.calls == 4


def test_different_calls_same_values(session: Session, log: Path) -> None:
    """The same values under another instruction, function or option are other prompts."""
    ran = ask(
        session, "SELECT ai_gen('x', note), ai_gen('y', note), ai_score('x', note), ai_filter('x', note) FROM people"
    )
    assert ran.calls == len(sent(log)) == 16


def test_null_is_not_sent(session: Session, log: Path) -> None:
    """NULL in: NULL out without a call; an empty text is a value."""
    ran = ask(session, "SELECT id, ai_gen('x', note) AS g FROM people")
    assert {row["id"] for row in ran.rows if row["g"] is None} == {4, 6}
    assert len(sent(log)) == 4


def test_null_fields_of_a_star(session: Session, log: Path) -> None:
    """NULL in a field of a star leaves it out of the prompt; all NULL is NULL without a call."""
    ran = ask(session, "SELECT id, ai_gen('x', t.*) AS g FROM (SELECT name, note FROM people) t JOIN people ON false")
    assert ran.rows == []
    ran = ask(session, "SELECT ai_gen('x', t.*) AS g FROM (SELECT name, note FROM people) t")
    assert ran.table.column("g").null_count == 1
    assert "name: Dan\nAnswer:" in "".join(sent(log))


def test_guard_is_not_sent(session: Session, log: Path) -> None:
    """Rows that a guard excludes are not sent, even beside rows with the same values that it lets through."""
    ask(session, "SELECT CASE WHEN id = 5 THEN ai_gen('x', note) END FROM people")
    assert len(sent(log)) == 1


def test_no_fields(session: Session, log: Path) -> None:
    """A call without fields has one answer for all rows, and none for no row."""
    ran = ask(session, "SELECT id, ai_gen('Tell a joke') AS g FROM people")
    assert len({row["g"] for row in ran.rows}) == 1
    assert len(sent(log)) == 1
    assert ask(session, "SELECT ai_gen('Tell another') FROM nothing").calls == 0


@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_failures_are_null(tmp_path: Path, optimizer: str) -> None:
    """A failed prompt is NULL in every row that wanted it, and counted for each; a filter is not true."""
    database = small_database(tmp_path, FAILING)
    session = database.session()
    ran = ask(session, "SELECT id, ai_gen('x', note) AS g FROM people", optimizer=optimizer)
    assert {row["id"] for row in ran.rows if row["g"] is None} == {1, 2, 4, 6, 8}
    assert ran.record.row()["failed_rows"] == 3
    kept = ask(session, "SELECT id FROM people WHERE ai_filter('x', note) IS NULL", optimizer=optimizer)
    assert {row["id"] for row in kept.rows} == {1, 2, 4, 6, 8}
    assert not {1, 2, 8} & {row["id"] for row in ask(session, "SELECT id FROM people WHERE ai_filter('x', note)").rows}
    database.close()


@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_failures_as_structs(tmp_path: Path, optimizer: str) -> None:
    """With `on_error => 'struct'` each row says what went wrong."""
    database = small_database(tmp_path, FAILING)
    sql = "SELECT id, ai_score('x', note, on_error => 'struct') AS r FROM people WHERE id < 5"
    rows = {row["id"]: row["r"] for row in ask(database.session(), sql, optimizer=optimizer).rows}
    assert rows[1]["value"] is None
    assert "tea" in rows[1]["error"]
    assert rows[3]["error"] is None
    assert isinstance(rows[3]["value"], float)
    assert rows[4] is None or rows[4] == {"value": None, "error": None}
    database.close()


@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_failures_fail(tmp_path: Path, optimizer: str) -> None:
    """With `on_error => 'fail'` the query fails and says which call."""
    database = small_database(tmp_path, FAILING)
    session = database.session()
    with pytest.raises(EngineError, match=r"ai_gen\('x', note, on_error => 'fail'\)"):
        ask(session, "SELECT ai_gen('x', note, on_error => 'fail') FROM people", optimizer=optimizer)
    (query,) = ask(session, "SELECT error FROM system.queries WHERE status = 'failed'").rows
    assert "on_error" in query["error"]
    ask(session, "SELECT ai_gen('x', note, on_error => 'fail') FROM people WHERE id = 5", optimizer=optimizer)
    database.close()


def test_failures_are_not_kept(tmp_path: Path) -> None:
    """A prompt that failed is asked once per query, and again by the next query."""
    database = small_database(tmp_path, FAILING)
    session = database.session()
    sql = "SELECT ai_gen('x', note) FROM people p, (VALUES (1), (2)) v"
    assert ask(session, sql).calls == 4
    assert ask(session, sql).calls == 1
    database.close()


def test_same_failures_either_way(tmp_path: Path) -> None:
    """Rows fail alike with the optimizer on and off."""
    database = small_database(tmp_path, {"fail_every": 2})
    on, off = ask_both(database.session(), "SELECT id, ai_gen('x', note, name) FROM people")
    assert canonical(on.table) == canonical(off.table)
    database.close()


def test_long_and_odd_values(session: Session) -> None:
    """Values with line breaks, NUL bytes and any script go through the operator and the cache unharmed."""
    values = "(VALUES (1, 'a\nb'), (2, 'ä\u0000ß'), (3, '日本語 🎬'), (4, repeat('x', 100000))) AS t(id, v)"
    first = ask(session, f"SELECT id, ai_gen('x', v) FROM {values}")
    assert first.calls == 4
    again = ask(session, f"SELECT id, ai_gen('x', v) FROM {values}")
    assert again.calls == 0
    assert canonical(again.table) == canonical(first.table)


@pytest.mark.slow
def test_slow_first_answer(database: Database) -> None:
    """While the first answer is awaited, rows that need others are asked for and handed on."""
    engine = Scripted(lambda _: "word", late=True)
    session = using(database, engine).session()
    session.update("CREATE TABLE many AS SELECT CAST(value AS TEXT) AS v FROM generate_series(1, 30000)")
    result = session.execute("SELECT ai_gen('x', v) FROM many")
    first = next(result.batches)
    assert first.num_rows >= 1
    assert len(engine.asked) < 10_000
    assert first.num_rows + sum(batch.num_rows for batch in result.batches) == 30_000
    assert len(engine.asked) == 30_000


@pytest.mark.parametrize("on_error", ["null", "struct"])
def test_unreadable_answers_are_not_kept(database: Database, on_error: str) -> None:
    """An answer that is none is counted as failed, asked twice a query, and asked again by the next query."""
    sql = f"SELECT ai_score('x', note, on_error => '{on_error}') AS s FROM people, (VALUES (1), (2)) AS v(n)"
    bad = ask(using(database, Scripted(lambda _: "garbage")).session(), sql)
    row = bad.record.row()
    assert (row["calls"], row["cache_hits"], row["failed_rows"], row["repairs"]) == (8, 0, 14, 4)
    good = ask(using(database, Scripted(lambda _: "7")).session(), sql)
    row = good.record.row()
    assert (row["calls"], row["cache_hits"], row["failed_rows"]) == (4, 0, 0)
    assert ask(database.session(), sql).calls == 0


def test_unreadable_answers_kept_before(database: Database) -> None:
    """An answer kept by another version that cannot be read now counts as unknown, and is replaced."""
    sql = "SELECT ai_score('x', note) AS s FROM people"
    ask(using(database, Scripted(lambda _: "7")).session(), sql)
    cache = database._services.cache
    cache.flush()
    assert cache._database is not None
    with cache._database:
        cache._database.execute("UPDATE answers SET text = 'garbage'")
    again = ask(database.session(), sql)
    assert (again.calls, again.cache_hits, again.record.row()["failed_rows"]) == (4, 0, 0)
    assert ask(database.session(), sql).cache_hits == 4


def test_same_prompt_different_on_error(database: Database) -> None:
    """Two calls that differ in `on_error` alone share their prompts, and each gets its own type."""
    sql = "SELECT id, ai_gen('x', note) AS g, ai_gen('x', note, on_error => 'struct') AS s FROM people"
    ran = ask(database.session(), sql)
    assert ran.calls == 4
    assert all(row["s"] == {"value": row["g"], "error": None} for row in ran.rows if row["g"] is not None)


@pytest.mark.parametrize("limit", [1_000, 2_500, 6_000])
def test_budget_with_one_operator_above_another(tmp_path: Path, limit: int) -> None:
    """A query whose operators ask by turns comes to its end when its tokens are spent, in time to be cancelled."""
    database = small_database(tmp_path, {"latency_ms": 5}, window=16)
    session = database.session()
    session.update("CREATE TABLE many AS SELECT 'note ' || value AS note FROM generate_series(1, 300)")
    sql = "SELECT note FROM many WHERE ai_filter('f', a => ai_gen('y', note, max_tokens => 64)) LIMIT 3"
    ask(session, sql, cache="off")  # what EXPLAIN learns of the answers lets the next estimate pass
    try:
        ran = ask(session, sql, cache="off", max_tokens=str(limit))
    except BudgetExceededError:
        ran = ask(session, sql, cache="off", max_calls="9999")
    assert ran.table.num_rows <= 3
    database.close()


def test_a_guard_holds_for_each_row(session: Session) -> None:
    """A row that needs no answer has none, also where another row of the same values is asked about."""
    sql = "SELECT id, CASE WHEN id IN (1, 5) THEN ai_gen('x', note) END AS g FROM people"
    on, _ = ask_both(session, sql)
    assert {row["id"] for row in on.rows if row["g"] is not None} == {1, 5}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ai_gen('x', note) FROM people WHERE note IS NOT NULL",
        "SELECT id FROM people WHERE note IS NOT NULL AND ai_filter('x', note)",
        "SELECT id FROM people WHERE ai_filter('x', note) LIMIT 2",
        "SELECT id FROM people WHERE ai_filter('x', note) AND ai_filter('y', note)",
    ],
)
def test_expected(session: Session, sql: str) -> None:
    """Progress has its total, known before the first prompt or counted on the way."""
    row = ask(session, sql).record.row()
    assert row["prompts_expected"] == row["distinct_prompts"] > 0


@contextmanager
def cut_short(folder: Path) -> Iterator[Session]:
    """Give a session whose endpoint reaches the token limit in every answer."""
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")

    def behave(path: str, body: Body, _: int) -> Reply:
        status, reply, headers = answer(path, body)
        reply["choices"][0]["finish_reason"] = "MAX_TOKENS"
        reply["usage"]["completion_tokens"] = body["max_tokens"]
        return status, reply, headers

    with endpoint_of(behave) as endpoint:
        engine = EngineConfig("openai", "any", 4, {"base_url": endpoint.url})
        database = Database.open(Config(engine=engine, data_folder=folder))
        session = database.session()
        for statement in SMALL:
            session.update(statement)
        yield session
        database.close()


@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_cut_texts_are_errors(tmp_path: Path, optimizer: str) -> None:
    """A text that the token limit cut is a row error that says what to write, or the value where the call keeps it."""
    with cut_short(tmp_path) as session:
        both = "ai_gen('x', note, on_error => 'struct') AS g, ai_gen('x', note, on_truncated => 'keep') AS k"
        sql = f"SELECT {both} FROM people WHERE note = 'likes tea'"
        for _ in range(2):
            ran = ask(session, sql, optimizer=optimizer)
            assert ran.cache_hits == 0
            assert ran.calls == (1 if optimizer == "on" else 2 * len(ran.rows))
            assert ran.record.row()["failed_rows"] == len(ran.rows)
            assert {row["k"].split()[0] for row in ran.rows} == {"text"}
            assert {row["g"]["value"] for row in ran.rows} == {None}
            [error] = {row["g"]["error"] for row in ran.rows}
            assert "cut at its limit of 1,024 tokens: write max_tokens => 2048, or on_truncated => 'keep'" in error
        assert rows(session, "SELECT entries FROM system.cache") == [{"entries": 0}]


def test_cut_texts_of_one_pass(tmp_path: Path) -> None:
    """A later step of the query takes a text that an earlier one cut, each call as it wants it."""
    with cut_short(tmp_path) as session:
        keep = "ai_gen('x', note, on_truncated => 'keep')"
        for first, second in (("IS NULL", "LIKE 'text%'"), ("IS NOT NULL", "LIKE 'text%'")):
            sql = f"SELECT id FROM people WHERE ai_gen('x', note) {first} AND {keep} {second} AND id = 1"
            ran = ask(session, sql)
            assert (ran.calls, len(ran.rows)) == (1, first == "IS NULL")


@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_room_for_long_texts(database: Database, optimizer: str) -> None:
    """Each prompt has room for an answer as long as its own text, and the cached answers do not depend on it."""
    engine = Scripted(lambda request: request.fields[0][1])
    session = using(database, engine).session()
    texts = "(VALUES ('short'), (repeat('x', 1000))) AS t(v)"
    ask(session, f"SELECT ai_translate(v, 'de') FROM {texts}", optimizer=optimizer)
    assert sorted(request.limit for request in engine.asked) == [512, 64 + 2 * 1000]
    if optimizer == "on":
        assert ask(session, f"SELECT ai_translate(v, 'de', max_tokens => 512) FROM {texts}").calls == 0


def test_cut_numbers_are_errors(tmp_path: Path) -> None:
    """A number that cannot be read says that it was cut, too."""
    with cut_short(tmp_path) as session:
        [row, *_] = ask(session, "SELECT ai_score('x', note, on_error => 'struct') AS s FROM people LIMIT 1").rows
        assert "expected a number from 0 to 10" in row["s"]["error"]
        assert "cut at its limit of 16 tokens: write max_tokens => 32" in row["s"]["error"]


class Refusing(FakeEngine):
    """An engine that fails each request, and counts what is alive of `watched` at every thousandth one."""

    def __init__(self) -> None:
        super().__init__("demo", 128, FakeOptions())
        self.watched: list[weakref.ref[OpenBatch]] = []
        self.living: list[int] = []

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Fail each request."""
        del cancelled
        for number, request in enumerate(request for request in requests if request is not None):
            if number % 1_000 == 0:
                self.living.append(sum(batch() is not None for batch in self.watched))
            yield Completion(request.id, None, error="refused")


def test_failures_keep_no_batches(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed answer is remembered for its pass without its rows, so memory does not grow with failures."""
    engine = Refusing()

    class Watched(OpenBatch):
        """Can be referred to weakly, unlike its base."""

        def __init__(self, batch: PromptBatch) -> None:
            super().__init__(batch)
            engine.watched.append(weakref.ref(self))

    monkeypatch.setattr("flightllm.operators.call_executor.OpenBatch", Watched)
    session = using(database, engine).session()
    session.update("CREATE TABLE numbers AS SELECT value FROM generate_series(1, 33000)")
    ran = ask(session, "SELECT ai_gen('x', value) FROM numbers")
    assert ran.record.row()["failed_rows"] == 33_000
    assert len(engine.watched) > 60
    assert max(engine.living) <= 2


def batches(count: int, tuples: int = 512) -> Iterator[PromptBatch]:
    """Make batches of so many tuples, one row each."""
    texts = [str(number) for number in range(tuples)]
    rows = pa.RecordBatch.from_arrays([pa.array(texts)], ["a"])
    return (PromptBatch(rows, np.arange(tuples), [(text,) for text in texts]) for _ in range(count))


def opened(window: BatchWindow) -> list[OpenBatch]:
    """Open as many batches as the window allows."""
    found = []
    while window.can_open() and (one := window.open_next()) is not None:
        found.append(one)
    return found


def test_window_open_tuples() -> None:
    """At most 4,096 tuples are open, or four windows of the engine if these are more."""
    tracker = LimitTracker()
    assert len(opened(BatchWindow(batches(100), 8, tracker, NOTHING_TO_LEARN))) == 8
    assert len(opened(BatchWindow(batches(100), 2_048, tracker, NOTHING_TO_LEARN))) == 16


def test_window_open_bytes() -> None:
    """Batches with further rows of one tuple stop at 64 MiB; others go on until two windows of tuples are open."""
    rows = pa.RecordBatch.from_arrays([pa.array(["x" * (20 << 20)])], ["a"])
    for goes_on, count in ((True, 4), (False, 16)):
        given = (PromptBatch(rows, np.zeros(1, np.int64), [("x",)], goes_on=goes_on) for _ in range(100))
        window = BatchWindow(given, 8, LimitTracker(), NOTHING_TO_LEARN)
        first = opened(window)
        assert len(first) == count
        window.finish(first[0])
        assert window.can_open()


def test_window_finished() -> None:
    """Eight finished batches stop the next one until the consumer takes one; all batches come out in the end."""
    window = BatchWindow(batches(20), 8, LimitTracker(), NOTHING_TO_LEARN)
    taken = 0
    while not window.is_done:
        for one in opened(window):
            window.finish(one)
            assert one.finished
        while window.has_finished:
            window.take_finished()
            taken += 1
    assert taken == 20


def test_window_limit() -> None:
    """Under a LIMIT as many batches open as the tracker needs tuples, and none while one waits for the consumer."""
    window = BatchWindow(batches(20, 16), 8, LimitTracker(20), NOTHING_TO_LEARN)
    first = opened(window)
    assert len(first) == 2  # 30 tuples: three quarters of those needed if half of them pass
    window.finish(first[0])
    assert not window.can_open()
    window.take_finished()
    assert window.can_open()


def test_window_filters_to_rank() -> None:
    """With several filters the first batch goes alone, as it shows which filter is best."""
    condition = Condition((0,), "t", pa.schema([]), None)
    steps = [BoundStep(((call,),), condition, frozenset()) for call in range(2)]
    window = BatchWindow(batches(20), 8, LimitTracker(), Ranking(steps, [Work(), Work()], lambda _: 1.0))
    first = opened(window)
    assert len(first) == 1
    window.finish(first[0])
    assert len(opened(window)) > 1
