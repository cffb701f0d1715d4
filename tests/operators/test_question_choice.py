"""Questions that share requests by themselves: only where that is cheaper, and where sampled rows agree."""

from collections import Counter
from pathlib import Path

import pytest

from flightllm.llm.engine import Request
from flightllm.llm.packs import pack_answer
from flightllm.session.session import Session
from tests.databases import Ran, ask, open_database
from tests.using_engines import Scripted, using

ROWS = 400
SQL = (
    "SELECT id, ai_classify(t, ['good', 'bad']) AS a,"
    " ai_classify(t, ['good', 'bad'], instructions => 'Twice.') AS b FROM t"
)


def session_of(folder: Path, spoilt: int, rows: int = ROWS) -> tuple[Session, Scripted, Counter[str]]:
    """Return a session on a model that answers shared requests as single ones, but for one in `spoilt` rows."""
    sold: Counter[str] = Counter()

    def one(instruction: str, fields: tuple[tuple[str, str], ...], *, packed: bool) -> str:
        number = int(fields[0][1].split()[1])
        sold[f"{'packed' if packed else 'alone'} {'Twice' in instruction} {number}"] += 1
        good = number % 3 == 0
        return "good" if good != (packed and bool(spoilt) and number % spoilt == 0) else "bad"

    def answer(request: Request) -> str:
        if not request.pack:
            return one(request.instruction, request.fields, packed=False)
        answers = [(i, one(i.instruction, i.fields, packed=True)) for i in request.pack]
        return pack_answer([(i.code, text, i.parameters.constraint) for i, text in answers])

    engine = Scripted(answer)
    session = using(open_database(folder, price=1.0), engine).session()
    text = "'text ' || value || repeat(' of many words', 80)"
    session.update(f"CREATE TABLE t AS SELECT value AS id, {text} AS t FROM range(0, {rows})")
    return session, engine, sold


def questions_lines(ran: Ran) -> list[str]:
    """Return what EXPLAIN says about the questions in a request."""
    text = "\n".join(line["plan"] for line in ran.rows if line["plan_type"].startswith("calls of"))
    return [line for line in text.splitlines() if line.startswith("questions: ")]


def test_agreeing_questions(tmp_path: Path) -> None:
    """48 rows that agree are enough; their single answers are used, and no question is bought twice in one way."""
    session, _, sold = session_of(tmp_path, 0)
    explain = f"EXPLAIN (ANALYZE, SAVINGS off) {SQL}"
    predicted = questions_lines(ask(session, explain.replace("ANALYZE, ", ""), questions_per_request="auto"))
    assert all("2 in one request" in line and "if sampled rows have the same" in line for line in predicted)
    ran = ask(session, explain, questions_per_request="auto")
    assert all("of 48 sampled rows, 48 have the same answers in both ways" in line for line in questions_lines(ran))
    assert set(sold.values()) == {1}
    assert sum(name.startswith("alone") for name in sold) == 96
    lines = next(line["plan"] for line in ran.rows if line["plan_type"] == "total").splitlines()
    calls = [line.split()[2] for line in lines[1:3]]
    assert calls == [str(48 + 2 * 48 + ROWS - 48)] * 2
    found = ask(session, SQL, questions_per_request="auto")
    assert (found.calls, len(found.rows)) == (0, ROWS)
    assert all(row["a"] == row["b"] == ("good" if row["id"] % 3 == 0 else "bad") for row in found.rows)


def test_differing_questions(tmp_path: Path) -> None:
    """Where a fourth of the rows differ, each question is asked by itself, and has the answer that it has alone."""
    session, _, sold = session_of(tmp_path, 4)
    lines = questions_lines(ask(session, f"EXPLAIN (ANALYZE, SAVINGS off) {SQL}", questions_per_request="auto"))
    assert all(line.startswith("questions: one after another: of 48 sampled rows, ") for line in lines)
    assert all("flightllm.rows_agreement is 0.9" in line for line in lines)
    assert sum(name.startswith("packed") for name in sold) == 96
    found = ask(session, SQL, questions_per_request="auto")
    assert (found.calls, set(sold.values())) == (0, {1})
    assert all(row["a"] == row["b"] == ("good" if row["id"] % 3 == 0 else "bad") for row in found.rows)


@pytest.mark.parametrize(
    ("sql", "settings", "reason"),
    [
        ("SELECT ai_gen('Say', t), ai_filter('Good?', t) FROM t", {}, "auto cannot compare free texts"),
        (SQL, {"rows_agreement": "0.99"}, "128 sampled rows cannot show that 99 % agree"),
        (f"{SQL} WHERE id < 100", {}, "auto needs 192 distinct rows"),
        (f"SELECT id FROM ({SQL}) WHERE a = b LIMIT 3", {}, "auto samples no rows under a LIMIT"),
    ],
)
def test_why_apart(tmp_path: Path, sql: str, settings: dict[str, str], reason: str) -> None:
    """EXPLAIN says why auto asks each question by itself."""
    session, engine, _ = session_of(tmp_path, 0)
    lines = questions_lines(ask(session, f"EXPLAIN (SAVINGS off) {sql}", questions_per_request="auto", **settings))
    assert reason in lines[0]
    assert not engine.asked
