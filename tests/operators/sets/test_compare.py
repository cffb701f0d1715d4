"""ai_compare in one order and in both."""

from pathlib import Path

import pytest

from flightllm.errors import AICallError
from flightllm.functions.ranking import FIRST, TIE
from tests.databases import ask, open_database
from tests.judges import judged
from tests.using_engines import Scripted, using

_PAIRS = "(VALUES (1, 'urgency 3', 'urgency 5'), (2, 'urgency 7', 'urgency 1'), (3, NULL, 'x')) AS p(id, a, b)"
_CALL = "ai_compare('Which is more urgent?', {}, both_orders => true)"


def test_both_orders(tmp_path: Path) -> None:
    """Both orders are asked, and agree; a NULL has no answer, and the second run asks nothing."""
    session = using(open_database(tmp_path), Scripted(judged)).session()
    sql = f"SELECT id, {_CALL.format('a, b')} AS c FROM {_PAIRS} ORDER BY id"
    ran = ask(session, sql)
    assert [row["c"] for row in ran.rows] == ["second", "first", None]
    assert (ran.calls, ask(session, sql).calls) == (4, 0)
    call = _CALL.format("a, 'urgency 4'")
    literal = f"SELECT {call} AS c FROM {_PAIRS} WHERE id < 3 ORDER BY id"
    assert [row["c"] for row in ask(session, literal).rows] == ["second", "first"]


def test_disagreement(tmp_path: Path) -> None:
    """A model that always prefers the first value gives ties; a filter reads them."""
    engine = Scripted(lambda _: FIRST)
    session = using(open_database(tmp_path), engine).session()
    rows = ask(session, f"SELECT id FROM {_PAIRS} WHERE {_CALL.format('a, b')} = '{TIE}' ORDER BY id").rows
    assert [row["id"] for row in rows] == [1, 2]


def test_one_order(tmp_path: Path) -> None:
    """Without both_orders there is one call for each pair, with and without optimizer."""
    session = using(open_database(tmp_path), Scripted(lambda _: "second")).session()
    sql = f"SELECT ai_compare('Which is more urgent?', a, b) AS c FROM {_PAIRS} ORDER BY id"
    ran = ask(session, sql)
    assert ([row["c"] for row in ran.rows], ran.calls) == (["second", "second", None], 2)
    assert ask(session, sql, optimizer="off").rows == ran.rows


@pytest.mark.parametrize(
    ("call", "match"),
    [
        ("ai_compare('{id}: which is more urgent?', a, b, id => id)", "unknown|too many|known by name"),
        ("ai_compare('x ' || id, a, b, both_orders => true)", "without further values"),
        ("ai_compare('x', a, b, both_orders => true, examples => [({'a': 'x', 'b': 'y'}, 'first')])", "one order"),
        ("ai_compare('x', a)", "missing argument second"),
    ],
)
def test_wrong_calls(tmp_path: Path, call: str, match: str) -> None:
    """A wrong call says what to write."""
    session = open_database(tmp_path).session()
    with pytest.raises(AICallError, match=match):
        ask(session, f"SELECT {call} FROM {_PAIRS}")
