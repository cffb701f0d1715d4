"""Stopping early: how many rows a LIMIT lets an operator ask about."""

from pathlib import Path

import pytest

from flightllm.operators.limit_tracker import LimitTracker
from flightllm.session.session import Session
from tests.databases import ask, open_database


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
def session(tmp_path: Path) -> Session:
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
        ("SELECT id FROM t WHERE ai_score('x', a) > 9 LIMIT 10", 10, 400),
        ("SELECT id FROM t WHERE ai_filter('x', a) AND ai_filter('y', a) LIMIT 10", 10, 160),
        ("SELECT id FROM t WHERE ai_filter('x', a) ORDER BY id DESC LIMIT 10", 10, 60),
        ("SELECT id, ai_gen('g', a) FROM t WHERE ai_filter('x', a) ORDER BY id LIMIT 10", 10, 70),
        ("SELECT id FROM t WHERE ai_filter('x', z => ai_gen('g', a)) LIMIT 10", 10, 1500),
        ("SELECT id FROM t WHERE ai_filter('x', a) LIMIT 0", 0, 0),
    ],
)
def test_few_calls(session: Session, sql: str, rows: int, most: int) -> None:
    """A LIMIT above an AI filter is reached with little more than the calls it takes."""
    ran = ask(session, sql, cache="off")
    assert ran.table.num_rows == rows
    assert ran.calls <= most


def test_order_of_the_first(session: Session) -> None:
    """The rows of ORDER BY with LIMIT are the first that pass, in order."""
    everything = ask(session, "SELECT id FROM t WHERE ai_filter('x', a) AND id > 4800 ORDER BY id DESC", cache="off")
    first = ask(session, "SELECT id FROM t WHERE ai_filter('x', a) ORDER BY id DESC LIMIT 7", cache="off")
    assert first.rows == everything.rows[:7]


def test_limit_beyond_the_end(session: Session) -> None:
    """A LIMIT that is never reached ends with the rows."""
    ran = ask(session, "SELECT id FROM t WHERE ai_filter('x', a) AND id <= 30 LIMIT 1000", cache="off")
    assert ran.calls == 30
