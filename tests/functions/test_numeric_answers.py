"""Aggregates of numbers over texts of the model: one number is read in each, and other texts are counted errors."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.errors import FlightLLMError
from flightllm.llm.engine import Request
from flightllm.session.session import Session
from tests.databases import ask, ask_both, open_database
from tests.using_engines import Scripted, using

ANSWERS = {"1": "4", "2": "Rating: 5.", "3": "4,5", "4": "4/5", "5": "no idea", "6": "2"}


def answer(request: Request) -> str:
    """Answer by the row's number."""
    return ANSWERS[dict(request.fields)["review"]]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Return a session over six reviews, one without a text, whose model answers as above."""
    database = open_database(tmp_path)
    database.session().update(
        "CREATE TABLE reviews AS SELECT * FROM (VALUES (1, 'x', '1', 1.0), (2, 'x', '2', 2.0), (3, 'x', '3', 3.0),"
        " (4, 'x', '4', 4.0), (5, 'y', '5', 5.0), (6, 'y', '6', 6.0), (7, 'y', NULL, 7.0)) AS v(id, g, review, w)"
    )
    yield using(database, Scripted(answer)).session()
    database.close()


RATE = "LLM('Rate from 1 to 5 {the opinion}', review)"


def test_average(session: Session) -> None:
    """The paper's query: the average is that of the texts with one number, per group; the others are failed rows."""
    found = ask_both(session, f"SELECT g, AVG({RATE}) AS v, count({RATE}) AS n FROM reviews GROUP BY g ORDER BY g")[0]
    assert found.rows == [{"g": "x", "v": 4.5, "n": 4}, {"g": "y", "v": 2.0, "n": 2}]
    only = ask(session, f"SELECT AVG({RATE}) AS v FROM reviews", cache="off")
    assert only.rows == [{"v": 15.5 / 4}]
    assert only.record.row()["failed_rows"] == 2


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (f"sum({RATE})", 15.5),
        (f"avg(CAST({RATE} AS DOUBLE))", 15.5 / 4),
        (f"sum(CAST({RATE} AS INT))", 11),
        (f"median({RATE})", 4.25),
        (f"round(stddev({RATE}), 3)", 1.315),
        (f"round(corr({RATE}, w), 3)", -0.821),
        (f"max({RATE})", "no idea"),
        (f"min({RATE})", "2"),
    ],
)
def test_aggregates(session: Session, expression: str, value: object) -> None:
    """Aggregates of numbers take numbers, also through a cast; min and max compare texts."""
    on, _ = ask_both(session, f"SELECT {expression} AS v FROM reviews")
    assert on.rows == [{"v": value}]


def test_window(session: Session) -> None:
    """So do window functions and HAVING."""
    found = ask_both(session, f"SELECT id, sum({RATE}) OVER (ORDER BY id) AS v FROM reviews ORDER BY id")[0]
    assert [row["v"] for row in found.rows] == [4.0, 9.0, 13.5, 13.5, 13.5, 15.5, 15.5]
    having = ask_both(session, f"SELECT g FROM reviews GROUP BY g HAVING AVG({RATE}) > 3")[0]
    assert having.rows == [{"g": "x"}]


def test_fails(session: Session) -> None:
    """Under on_error => 'fail' a text without one number fails the query, and its error shows the text."""
    call = RATE.replace("review)", "review, on_error => 'fail')")
    with pytest.raises(FlightLLMError, match=re.escape("expected a text with one number")):
        ask(session, f"SELECT AVG({call}) FROM reviews")


def test_kept_answers(session: Session) -> None:
    """Texts with one number are kept, and asked for no second time; the text itself is another answer."""
    first, second = (ask(session, f"SELECT AVG({RATE}) AS v FROM reviews") for _ in range(2))
    assert first.rows == second.rows
    assert (first.calls, second.calls) == (6, 2)
    texts = ask(session, f"SELECT {RATE} AS t FROM reviews WHERE review IS NOT NULL ORDER BY id")
    assert [row["t"] for row in texts.rows] == [*ANSWERS.values()]
