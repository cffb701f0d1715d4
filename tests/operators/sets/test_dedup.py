"""Texts about the same thing, found through SQL."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.dedup import run
from flightllm.config import EmbeddingConfig
from flightllm.errors import AnswerError, BudgetExceededError, InvalidInputError
from flightllm.llm.engine import Request
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import Ran, ask, explained, open_database
from tests.simulated import VectorModel, simulated
from tests.using_engines import Scripted, using

FIRMS = ["IBM Corp.", "IBM Corporation", "ibm corp", "Apple Inc", "Apple Inc.", "Apple", "Zeta", None, " Zeta ", "IBM"]
SQL = "SELECT id, ai_dedup(name) AS kept FROM firms ORDER BY id"


def firm(request: Request) -> str:
    """Call two names the same if their first letters are."""
    one, other = (value.strip()[:2].lower() for _, value in request.fields)
    return "Yes" if one == other else "No"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database with a table of names."""
    with_names(tmp_path / "firms.parquet", FIRMS)
    with closing(open_database(tmp_path, tables={"firms": tmp_path / "firms.parquet"})) as found:
        yield found


def with_names(path: Path, names: list[str | None]) -> None:
    """Write a table of names."""
    pq.write_table(pa.table({"id": list(range(len(names))), "name": pa.array(names, pa.string())}), path)


def session_of(database: Database, answer: Callable[[Request], str] = firm) -> tuple[Session, Scripted]:
    """Return a session whose engine answers pairs."""
    engine = Scripted(answer)
    return using(database, engine).session(), engine


def kept(ran: Ran) -> list[Any]:
    """Return the kept text of each row."""
    return [row["kept"] for row in ran.rows]


def test_rows_about_one_thing_get_one_text(database: Database) -> None:
    """The text of most rows is kept, then the longest; NULL stays NULL, and white space makes no difference."""
    session, engine = session_of(database)
    found = ask(session, SQL)
    ibm, apple = "IBM Corporation", "Apple Inc."
    assert kept(found) == [ibm, ibm, ibm, apple, apple, apple, "Zeta", None, "Zeta", ibm]
    assert len(engine.asked) <= 3 * 8
    again = ask(session, SQL)
    assert (again.calls, kept(again)) == (0, kept(found))


def test_groups_in_sql(database: Database) -> None:
    """GROUP BY and DISTINCT ON take the answer as their key."""
    session, _ = session_of(database)
    counts = ask(session, "SELECT ai_dedup(name) AS firm, count(*) AS n FROM firms GROUP BY 1 ORDER BY 2 DESC, 1")
    assert [(row["firm"], row["n"]) for row in counts.rows] == [
        ("IBM Corporation", 4),
        ("Apple Inc.", 3),
        ("Zeta", 2),
        (None, 1),
    ]
    first = ask(session, "SELECT DISTINCT ON (ai_dedup(name)) id FROM firms WHERE name IS NOT NULL")
    assert len(first.rows) == 3


def test_the_order_of_rows_changes_nothing(database: Database) -> None:
    """Prompts and answers are those of another order of the rows."""
    asked = []
    for order in ("id", "id DESC", "name"):
        session, engine = session_of(database)
        session.update("SET flightllm.cache = 'off'")
        found = ask(session, f"SELECT id, ai_dedup(name) AS kept FROM (SELECT * FROM firms ORDER BY {order})")
        asked.append(
            (sorted(request.prompt for request in engine.asked), sorted((r["id"], r["kept"] or "") for r in found.rows))
        )
    assert asked[0] == asked[1] == asked[2]


@pytest.mark.parametrize(
    ("where", "expected"),
    [("false", []), ("id = 6", ["Zeta"]), ("name IS NULL", [None]), ("id IN (6, 8)", ["Zeta", "Zeta"])],
)
def test_small_sets_need_no_prompt(database: Database, where: str, expected: list[Any]) -> None:
    """No row, one row, NULL, and texts that are equal but for white space are answered without the model."""
    session, engine = session_of(database)
    found = ask(session, f"SELECT id, ai_dedup(name) AS kept FROM firms WHERE {where} ORDER BY id")
    assert (kept(found), engine.asked) == (expected, [])


def test_a_weak_pair_is_asked_again(database: Database) -> None:
    """A wrong Yes does not merge two groups: the other order of the texts and another question decide."""

    def errs_once(request: Request) -> str:
        values = [value for _, value in request.fields]
        if values == sorted(values) and values == ["Apple", "Zeta"] and "merge" not in request.prompt:
            return "Yes"
        return firm(request)

    session, engine = session_of(database, errs_once)
    found = ask(session, "SELECT id, ai_dedup(name) AS kept FROM firms WHERE id IN (4, 5, 6) ORDER BY id")
    assert kept(found) == ["Apple Inc.", "Apple Inc.", "Zeta"]
    assert sum("merge" in request.prompt for request in engine.asked) == 1


def test_explain_tells_the_steps(database: Database) -> None:
    """EXPLAIN predicts the calls without any, and EXPLAIN ANALYZE has the figures of each step."""
    session, engine = session_of(database)
    predicted = explained(session, SQL)
    assert not engine.asked
    assert "steps: 8 texts; " in str(predicted)
    actual = str(explained(session, f"ANALYZE {SQL}"))
    assert "by blocking" in actual
    assert "weak pairs checked" in actual
    assert "certain at 0.95" in actual


@pytest.mark.parametrize("on_error", ["null", "fail", "struct"])
def test_an_answer_that_fails(database: Database, on_error: str) -> None:
    """Texts whose pair has no answer have no group, except where others connect them."""

    def broken(request: Request) -> str:
        return "Perhaps" if any(value == "Apple" for _, value in request.fields) else firm(request)

    session, _ = session_of(database, broken)
    sql = f"SELECT id, ai_dedup(name, on_error => '{on_error}') AS kept FROM firms WHERE id IN (3, 4, 5) ORDER BY id"
    if on_error == "fail":
        with pytest.raises(AnswerError, match="expected one of Yes, No"):
            ask(session, sql)
        return
    found = kept(ask(session, sql))
    if on_error == "null":
        assert found == [None, None, None]
    else:
        assert all(one["value"] is None and "expected one of Yes, No" in one["error"] for one in found)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("precision => 1.5", "precision must be above 0, and at most 1, such as 0.95, and is 1.5"),
        ("confidence => 1", "confidence must be above 0 and below 1"),
        ("recall => 0", "recall must be above 0"),
        ("blocking => 'magic'", "spelling"),
        ("precission => 0.9", "did you mean precision"),
        ("examples => [('a', 'b')]", "write instructions"),
    ],
)
def test_wrong_options(database: Database, options: str, error: str) -> None:
    """A wrong option is refused with a sentence that names it."""
    session, _ = session_of(database)
    with pytest.raises(InvalidInputError, match=error):
        ask(session, f"SELECT ai_dedup(name, {options}) FROM firms")


def test_instructions_say_what_the_same_thing_is(database: Database) -> None:
    """Both questions have the user's instructions."""
    session, engine = session_of(database)
    ask(
        session,
        "SELECT ai_dedup(name, instructions => 'Branches are one firm.', precision => 1, recall => 1) FROM firms",
    )
    assert engine.asked
    assert all("Branches are one firm." in request.prompt for request in engine.asked)


def test_whole_rows(database: Database) -> None:
    """A star compares all columns of a row."""
    session, engine = session_of(database, lambda _: "No")
    rows = "(VALUES ('Ann Lee', 'Oslo'), ('Ann Lee', 'Rome'), ('Ann Lee', 'Oslo'), ('Ann Lee', NULL)) AS t(name, city)"
    found = ask(session, f"SELECT ai_dedup(t.*) AS kept FROM {rows}")
    assert kept(found) == ["Ann Lee, Oslo", "Ann Lee, Rome", "Ann Lee, Oslo", "Ann Lee"]
    assert len(engine.asked) == 3


def test_blocking_by_meaning(tmp_path: Path) -> None:
    """Names that share no part are candidates because their vectors are near; by spelling nobody asks about them."""
    pairs = [("automobile", "car"), ("dwelling", "house"), ("physician", "doctor"), ("feline", "cat")]
    names: list[str | None] = [*(name for pair in pairs for name in pair), "xylophone", "tundra", "quartz"]
    meant = {frozenset(pair) for pair in pairs}
    with_names(tmp_path / "firms.parquet", names)
    places = {name: place for place, pair in enumerate(pairs) for name in pair}
    vectors = VectorModel({name: places.get(name, 9) for name in names if name}, noise=0.05)
    tables = {"firms": tmp_path / "firms.parquet"}

    def same(request: Request) -> str:
        return "Yes" if frozenset(value for _, value in request.fields) in meant else "No"

    with (
        simulated({}, vectors),
        closing(open_database(tmp_path, embedding=EmbeddingConfig("fake"), tables=tables)) as database,
    ):
        session, _ = session_of(database, same)
        found = {
            way: kept(ask(session, f"SELECT id, ai_dedup(name, blocking => '{way}') AS kept FROM firms ORDER BY id"))
            for way in ("spelling", "meaning")
        }
    assert found["spelling"][:2] == ["automobile", "car"]
    assert found["meaning"][:2] == ["automobile", "automobile"]
    assert found["meaning"][8:] == names[8:]


def test_a_budget_is_checked_before(database: Database) -> None:
    """A query whose predicted prompts exceed the limit does not run."""
    session, engine = session_of(database)
    session.update("SET flightllm.max_calls = '1'")
    with pytest.raises(BudgetExceededError, match=r"flightllm\.max_calls is 1"):
        ask(session, SQL)
    assert not engine.asked


def test_exact_targets_ask_each_pair(database: Database, tmp_path: Path) -> None:
    """With precision and recall 1, no pair is decided by its similarity."""
    del database
    names = [f"{''.join(one)} number {n}" for n, one in enumerate(itertools.product("abcd", repeat=4))]
    with_names(tmp_path / "many.parquet", list(names))
    with closing(open_database(tmp_path / "other", tables={"firms": tmp_path / "many.parquet"})) as found:
        session, _ = session_of(found)
        told = str(explained(session, "ANALYZE SELECT ai_dedup(name, precision => 1, recall => 1) FROM firms"))
    assert "accepted" not in told


@pytest.mark.parametrize("error", [0.0, 0.02])
def test_precision_on_dirty_records(error: float) -> None:
    """Groups of simulated records are precise, and cost at most three calls a record."""
    for seed in range(2):
        found = run(400, seed, error, 0.95)
        assert found.precision >= 0.95
        assert found.recall >= 0.9
        assert found.calls <= 3 * 400
