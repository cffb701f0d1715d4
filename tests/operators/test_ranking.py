"""Which filter an operator tries first."""

from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.llm.cost import Work
from flightllm.operators.ranking import Ranking
from flightllm.plan.stages import BoundStep, Condition
from flightllm.session.session import Session
from tests.databases import ask, ask_both, open_database

CONDITION = Condition((0,), "t", pa.schema([]), None)


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
def session(tmp_path: Path) -> Session:
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
def test_learned_from_the_rows(session: Session, where: str) -> None:
    """The order of the text does not matter: the filter that keeps few rows is soon tried first."""
    ran = ask(session, f"SELECT id FROM t WHERE {where}", cache="off")
    calls = {row["text"].split("'")[1]: row["calls"] for row in ran.record.call_rows()}
    assert calls["keeps few rows, in many more words than that"] > 1900
    assert calls["keeps most rows"] < 200
    ask_both(session, f"SELECT id FROM t WHERE {where}")


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
