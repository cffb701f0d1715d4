"""Packs that a session wishes only where they are cheaper, and where sampled rows agree with single ones."""

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from flightllm.config import Config, EngineConfig
from flightllm.llm.engine import Request
from flightllm.llm.packs import pack_answer
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import Ran, ask, open_database
from tests.using_engines import Scripted, using

ROWS = 400
TASK = "Say which mood the text has. " + "Read the text twice, and think of its author. " * 12
SQL = f"SELECT id, ai_classify(t, ['good', 'bad'], instructions => '{TASK}') AS a FROM t"


def session_of(folder: Path, spoilt: int, rows: int = ROWS) -> tuple[Session, Scripted, Counter[str]]:
    """Return a session on a model that answers packs as single rows, but for one in `spoilt` rows; and what it sold."""
    sold: Counter[str] = Counter()

    def one(fields: tuple[tuple[str, str], ...], *, packed: bool) -> str:
        number = int(fields[0][1].split()[1])
        sold[f"{'packed' if packed else 'alone'} {number}"] += 1
        good = number % 3 == 0
        return "good" if good != (packed and bool(spoilt) and number % spoilt == 0) else "bad"

    def answer(request: Request) -> str:
        if not request.pack:
            return one(request.fields, packed=False)
        return pack_answer([(i.code, one(i.fields, packed=True), i.parameters.constraint) for i in request.pack])

    engine = Scripted(answer)
    session = using(open_database(folder, price=1.0), engine).session()
    session.update(f"CREATE TABLE t AS SELECT value AS id, 'text ' || value AS t FROM range(0, {rows})")
    return session, engine, sold


def requests_line(ran: Ran) -> str:
    """Return what EXPLAIN says about the rows in a request."""
    text: str = next(line["plan"] for line in ran.rows if line["plan_type"].startswith("calls of"))
    return next(line for line in text.splitlines() if line.startswith("requests: "))


def test_agreeing_packs(tmp_path: Path) -> None:
    """48 rows that agree are enough; each row's single answer is used, and no row is bought twice in one way."""
    session, _, sold = session_of(tmp_path, 0)
    assert "if sampled rows have the same answers" in requests_line(
        ask(session, f"EXPLAIN (SAVINGS off) {SQL}", rows_per_request="auto")
    )
    ran = ask(session, f"EXPLAIN (ANALYZE, SAVINGS off) {SQL}", rows_per_request="auto")
    line = requests_line(ran)
    assert "up to 32 rows in a request: of 48 sampled rows, 48 have the same answer in both ways" in line
    assert "at least 92.6 %" in line
    assert set(sold.values()) == {1}
    assert sum(name.startswith("alone") for name in sold) == 48
    found = ask(session, SQL, rows_per_request="auto")
    assert (found.calls, len(found.rows)) == (0, ROWS)
    assert all(row["a"] == ("good" if row["id"] % 3 == 0 else "bad") for row in found.rows)


def test_predicted_calls(tmp_path: Path) -> None:
    """EXPLAIN predicts the calls of the sample and of the packs."""
    session, _, _ = session_of(tmp_path, 0)
    shown = ask(session, f"EXPLAIN (ANALYZE, SAVINGS off) {SQL}", rows_per_request="auto").rows
    lines = next(line["plan"] for line in shown if line["plan_type"] == "total").splitlines()
    predicted, actual = (line.split() for line in lines[1:3])
    assert predicted[2] == actual[2]


def test_differing_packs(tmp_path: Path) -> None:
    """Where a fourth of the rows differ, each row is asked by itself, and has the answer that it has alone."""
    session, _, sold = session_of(tmp_path, 4)
    line = requests_line(ask(session, f"EXPLAIN (ANALYZE, SAVINGS off) {SQL}", rows_per_request="auto"))
    assert line.startswith("requests: each row by itself: of 48 sampled rows, ")
    assert "flightllm.rows_agreement is 0.9" in line
    assert sum(name.startswith("packed") for name in sold) == 48
    found = ask(session, SQL, rows_per_request="auto")
    assert (found.calls, set(sold.values())) == (0, {1})
    assert all(row["a"] == ("good" if row["id"] % 3 == 0 else "bad") for row in found.rows)


def test_named_agreement(tmp_path: Path) -> None:
    """A lower target takes packs that differ more often."""
    session, _, _ = session_of(tmp_path, 4)
    settings = {"rows_per_request": "auto", "rows_agreement": "0.5"}
    line = requests_line(ask(session, f"EXPLAIN (ANALYZE, SAVINGS off) {SQL}", **settings))
    assert line.startswith("requests: up to 32 rows in a request: of 48 sampled rows, ")


@pytest.mark.parametrize(
    ("sql", "settings", "reason"),
    [
        ("SELECT ai_gen('Say', t) FROM t", {}, "auto cannot compare free texts"),
        (SQL, {"rows_agreement": "0.99"}, "128 sampled rows cannot show that 99 % agree"),
        (f"{SQL} WHERE id < 100", {}, "auto needs 192 distinct rows"),
        (f"SELECT id FROM ({SQL}) WHERE a = 'good' LIMIT 3", {}, "auto samples no rows under a LIMIT"),
    ],
)
def test_why_alone(tmp_path: Path, sql: str, settings: dict[str, str], reason: str) -> None:
    """EXPLAIN says why auto asks about each row by itself."""
    session, engine, _ = session_of(tmp_path, 0)
    assert reason in requests_line(ask(session, f"EXPLAIN (SAVINGS off) {sql}", rows_per_request="auto", **settings))
    assert not engine.asked


def test_dear_answers(tmp_path: Path) -> None:
    """A short question about short rows costs more in packs, where each answer has a code, if answers are dear."""
    engine = EngineConfig("fake", "demo", 8, price_input=1.0, price_output=50.0)
    with closing(Database.open(Config(engine=engine, data_folder=tmp_path))) as database:
        session = database.session()
        session.update("CREATE TABLE t AS SELECT 'text ' || value AS t FROM range(0, 300)")
        shown = ask(session, "EXPLAIN (SAVINGS off) SELECT ai_filter('Good?', t) FROM t", rows_per_request="auto")
        assert "several rows in a request are not cheaper" in requests_line(shown)
