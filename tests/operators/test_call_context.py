"""How many rows a LIMIT lets an operator ask about, which filter it tries first, and which prompts go first."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.config.session_settings import INTERACTIVE_PROMPTS
from flightllm.llm.cost import Work
from flightllm.operators.call_context import LimitTracker, Precedence, Ranking
from flightllm.plan.stages import BoundStep, Condition
from flightllm.session.session import Session
from tests.databases import ask, ask_both, open_database
from tests.using_engines import Scripted, using

CONDITION = Condition((0,), "t", pa.schema([]), None)


def test_waves() -> None:
    """The first wave expects half of the rows to pass; later ones what was seen, so that they grow where few pass."""
    tracker = LimitTracker(10)
    assert tracker.trials_needed() == 15
    assert tracker.trials_needed(10) == 5
    assert tracker.trials_needed(25) == 0
    tracker.add_trials(20)
    assert tracker.trials_needed() == 165
    tracker.add_rows(9)
    assert tracker.trials_needed() == 1
    assert LimitTracker(1).trials_needed() == 1
    assert not LimitTracker().limited


@pytest.fixture
def numbered(tmp_path: Path) -> Session:
    """Return a session on a table of many rows."""
    database = open_database(tmp_path, {"latency_ms": 1})
    session = database.session()
    session.update("CREATE TABLE t AS SELECT value AS id, 'text ' || value AS a FROM generate_series(1, 5000)")
    return session


@pytest.mark.parametrize(
    ("sql", "rows", "most"),
    [
        ("SELECT id FROM t WHERE ai_filter('x', a) LIMIT 20", 20, 80),
        ("SELECT id FROM t WHERE ai_filter('x', a) LIMIT 1", 1, 20),
        ("SELECT id FROM t WHERE ai_filter('x', a) LIMIT 5 OFFSET 10", 5, 70),
        ("SELECT id FROM t WHERE ai_score('x', a, expected => false) > 9 LIMIT 10", 10, 400),
        ("SELECT id FROM t WHERE ai_filter('x', a) AND ai_filter('y', a) LIMIT 10", 10, 160),
        ("SELECT id FROM t WHERE ai_filter('x', a) ORDER BY id DESC LIMIT 10", 10, 60),
        ("SELECT id, ai_gen('g', a) FROM t WHERE ai_filter('x', a) ORDER BY id LIMIT 10", 10, 70),
        ("SELECT id FROM t WHERE ai_filter('x', z => ai_gen('g', a)) LIMIT 10", 10, 1500),
        ("SELECT id FROM t WHERE ai_filter('x', a) LIMIT 0", 0, 0),
    ],
)
def test_few_calls(numbered: Session, sql: str, rows: int, most: int) -> None:
    """A LIMIT above an AI filter is reached with little more than the calls it takes."""
    ran = ask(numbered, sql, cache="off")
    assert ran.table.num_rows == rows
    assert ran.calls <= most


def test_order_of_the_first(numbered: Session) -> None:
    """The rows of ORDER BY with LIMIT are the first that pass, in order."""
    everything = ask(numbered, "SELECT id FROM t WHERE ai_filter('x', a) AND id > 4800 ORDER BY id DESC", cache="off")
    first = ask(numbered, "SELECT id FROM t WHERE ai_filter('x', a) ORDER BY id DESC LIMIT 7", cache="off")
    assert first.rows == everything.rows[:7]


def test_limit_beyond_the_end(numbered: Session) -> None:
    """A LIMIT that is never reached ends with the rows."""
    ran = ask(numbered, "SELECT id FROM t WHERE ai_filter('x', a) AND id <= 30 LIMIT 1000", cache="off")
    assert ran.calls == 30


def step(*, filters: bool = True, after: frozenset[int] = frozenset()) -> BoundStep:
    """Return a step of one call."""
    return BoundStep(((0,),), CONDITION if filters else None, after)


def prompt(tokens: int) -> Work:
    """Return the work of a prompt."""
    return Work(1, tokens)


def tokens(work: Work) -> float:
    """Weigh work by its tokens."""
    return float(work.tokens)


def test_before_anything_is_known() -> None:
    """The filter with the shorter prompts comes first, what drops no row last."""
    ranking = Ranking([step(filters=False), step(), step()], [prompt(1), prompt(50), prompt(20)], tokens)
    assert ranking.next([]) == [2, 1, 0]
    assert ranking.next([2]) == [1, 0]
    assert ranking.next([1, 2]) == [0]
    assert ranking.next([0, 1, 2]) == []


def test_selectivity_and_cost() -> None:
    """The cost of dropping a row decides: a dear filter that drops most rows goes before a cheap one that drops few."""
    ranking = Ranking([step(), step()], [prompt(10), prompt(20)], tokens)
    assert ranking.learns
    ranking.paid(0, prompt(1000))
    ranking.filtered(0, 100, 99)
    ranking.paid(1, prompt(2000))
    ranking.filtered(1, 100, 10)
    assert ranking.next([])[0] == 1
    ranking.paid(1, prompt(200_000))
    assert ranking.next([])[0] == 0


def test_known_answers_are_free() -> None:
    """A filter whose answers all were in the cache comes first."""
    ranking = Ranking([step(), step()], [prompt(10), prompt(20)], tokens)
    ranking.filtered(1, 10, 9)
    assert ranking.next([])[0] == 1


def test_needs() -> None:
    """A step waits for those whose answers it reads."""
    ranking = Ranking([step(), step(after=frozenset({0}))], [prompt(100), prompt(1)], tokens)
    assert ranking.next([]) == [0]
    assert ranking.next([0]) == [1]


@pytest.fixture
def two_columns(tmp_path: Path) -> Session:
    """Return a session on a table of two text columns."""
    database = open_database(tmp_path)
    session = database.session()
    session.update(
        "CREATE TABLE t AS SELECT value AS id, 'text ' || value AS a, 'w ' || value AS b FROM generate_series(1, 2000)"
    )
    return session


@pytest.mark.parametrize(
    "where",
    [
        "ai_score('keeps most rows', a) > 0.05 AND ai_score('keeps few rows, in many more words than that', b) > 9.9",
        "ai_score('keeps few rows, in many more words than that', b) > 9.9 AND ai_score('keeps most rows', a) > 0.05",
    ],
)
def test_learned_from_the_rows(two_columns: Session, where: str) -> None:
    """The order of the text does not matter: the filter that keeps few rows is soon tried first."""
    ran = ask(two_columns, f"SELECT id FROM t WHERE {where}", cache="off")
    calls = {row["text"].split("'")[1]: row["calls"] for row in ran.record.call_rows()}
    assert calls["keeps few rows, in many more words than that"] > 1900
    assert calls["keeps most rows"] < 200
    ask_both(two_columns, f"SELECT id FROM t WHERE {where}")


def test_nothing_is_paid_twice(tmp_path: Path) -> None:
    """The second run of a query with several filters makes no call, whatever order the first run found."""
    database = open_database(tmp_path, {"latency_ms": 1})
    session = database.session()
    session.update(
        "CREATE TABLE t AS SELECT 'text ' || value AS a, 'w ' || (value % 90) AS b FROM generate_series(1, 3000)"
    )
    sql = (
        "SELECT a FROM t WHERE ai_filter('Is {a} angry?', a) AND ai_filter('Is {b} good?', b) AND ai_score('c', a) > 2"
    )
    first, second = ask(session, sql), ask(session, sql)
    assert first.calls > 90
    assert second.calls == 0
    assert second.table.num_rows == first.table.num_rows
    for row in second.record.call_rows():
        assert row["cache_hits"] == row["distinct_prompts"]
    database.close()


def test_first_prompts_of_a_query_go_first() -> None:
    """A query's first prompts go before what others send later."""
    precedence = Precedence()
    seen = []
    for _ in range(100):
        seen.append(precedence.now)
        precedence.sent()
    assert seen == [0] * INTERACTIVE_PROMPTS + [1] * (100 - INTERACTIVE_PROMPTS)


@pytest.mark.parametrize("optimizer", ["on", "off"])
@pytest.mark.parametrize(
    ("priority", "expected"), [("auto", {0: 64, 1: 136}), ("interactive", {0: 200}), ("bulk", {1: 200})]
)
def test_priority_of_a_session(tmp_path: Path, optimizer: str, priority: str, expected: dict[int, int]) -> None:
    """Requests carry what the session says, all calls of a query counted together."""
    database = open_database(tmp_path)
    engine = Scripted(lambda _: "x")
    session = using(database, engine).session()
    session.update("CREATE TABLE t AS SELECT value::text AS a FROM generate_series(1, 100)")
    sql = "SELECT ai_gen('Sum up', a), ai_gen('Go on', a) FROM t"
    ask(session, sql, priority=priority, optimizer=optimizer, cache="off")
    assert Counter(request.priority for request in engine.asked) == expected
    session.close()
    database.close()
