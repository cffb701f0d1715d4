"""Comparisons with a promise: one boolean call stands for them, with the same rows and the same prompts."""

import pytest

from flightllm.errors import AICallError
from flightllm.plan.nodes import AiMap, walk
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, plan_of, rows

SMALL = "CREATE MODEL small OPTIONS (engine 'fake', model 's', proxy_for 'default')"
SCORE = "ai_score('How happy?', note, recall => 0.9)"
LABEL = "ai_classify(note, ['a', 'b', 'c'], recall => 0.9)"
FILTER = "ai_filter('Is it good?', note, recall => 0.9)"
TARGETS = ", recall => 0.9"


@pytest.fixture(scope="module")
def database(database: Database) -> Database:
    """Return the shared database with a proxy of its own model."""
    session = database.session()
    session.update(SMALL.replace("MODEL", "MODEL IF NOT EXISTS"))
    return database


@pytest.fixture
def session(database: Database) -> Session:
    """Return a session on it."""
    return database.session()


def folded(database: Database, sql: str) -> list[str]:
    """Return the texts of the boolean calls that stand for comparisons, the lowest last."""
    nodes = walk(plan_of(database, sql).root)
    calls = [call.ai for node in nodes if isinstance(node, AiMap) for call in node.calls]
    return [call.text for call in calls if call.before is not None]


@pytest.mark.parametrize(
    ("condition", "texts"),
    [
        (f"{SCORE} >= 7", [f"{SCORE} >= 7"]),
        (f"{SCORE} < 4.5", [f"{SCORE} < 4.5"]),
        (f"5 <= {SCORE} AND name = 'Ann'", [f"{SCORE} >= 5"]),
        (f"{SCORE} BETWEEN 3 AND 4.8", [f"{SCORE} >= 3 AND … <= 4.8"]),
        (f"{SCORE} NOT BETWEEN 3 AND 4.8", [f"({SCORE} < 3 OR … > 4.8)"]),
        (f"{SCORE} > 4.2 AND id > 1 AND {SCORE} < 4.8", [f"{SCORE} > 4.2 AND … < 4.8"]),
        (f"id = 3 OR {SCORE} > 5 OR {SCORE} < 4.2", [f"({SCORE} > 5 OR … < 4.2)"]),
        (f"NOT ({SCORE} > 4.8)", [f"{SCORE} <= 4.8"]),
        (f"({SCORE} > 4.8) IS NOT TRUE", [f"{SCORE} > 4.8"]),
        (f"{LABEL} = 'a'", [f"{LABEL} = 'a'"]),
        (f"{LABEL} <> 'a'", [f"{LABEL} <> 'a'"]),
        (f"{LABEL} IN ('a', 'it''s')", [f"{LABEL} IN ('a', 'it''s')"]),
        (f"{LABEL} = 'a' AND {SCORE} > 4.2", [f"{LABEL} = 'a'", f"{SCORE} > 4.2"]),
        (f"NOT {FILTER}", [f"NOT {FILTER}"]),
        (f"id > 1 AND NOT {FILTER} AND {LABEL} = 'a'", [f"NOT {FILTER}", f"{LABEL} = 'a'"]),
        (f"{FILTER} OR NOT {FILTER}", []),
        (f"{LABEL} LIKE 'a%' OR {LABEL} = 'b'", []),
    ],
)
def test_same_rows(database: Database, session: Session, condition: str, texts: list[str]) -> None:
    """One call stands for all comparisons of one call, and finds the rows that the comparisons find."""
    sql = f"SELECT id FROM people WHERE {condition} ORDER BY id"
    assert sorted(folded(database, sql)) == sorted(texts)
    plain = rows(session, sql.replace(TARGETS, ""))
    assert plain == rows(session, sql)
    assert ask(session, sql).calls == 0, "the answers of the model are known from the first query"


def test_in_select(session: Session) -> None:
    """Outside of WHERE, and in aggregates, the comparison is NULL where the call is."""
    sql = (
        f"SELECT id, {SCORE} > 4.8 AS high, count(*) FILTER (WHERE {SCORE} > 4.8) OVER () AS n FROM people ORDER BY id"
    )
    assert rows(session, sql) == rows(session, sql.replace(TARGETS, ""))


def test_examples_move_the_number_first(session: Session) -> None:
    """Examples that calibrate a score do so before the comparison, as in SQL without a promise."""
    examples = "[('likes tea', 9), ('hates rain', 0), ('owns a cat', 8), ('is late', 1)]"
    score = SCORE.replace(TARGETS, f", examples => {examples}{TARGETS}")
    sql = f"SELECT id, {score} > 5 AS high FROM people ORDER BY id"
    plain = rows(session, sql.replace(TARGETS, ""))
    assert rows(session, sql) == plain
    assert len({row["high"] for row in plain}) > 1


@pytest.mark.parametrize("threshold", [-1, 11])
def test_nothing_to_decide(database: Database, threshold: int) -> None:
    """A comparison that holds for all numbers, or for no number, makes no promise: a proxy could tell nothing."""
    root = plan_of(database, f"SELECT id FROM people WHERE {SCORE} > {threshold}").root
    (call,) = (call.ai for node in walk(root) if isinstance(node, AiMap) for call in node.calls)
    assert call.promise is None


@pytest.mark.parametrize("sql", [f"SELECT {SCORE} AS s FROM people", f"SELECT 1 FROM people WHERE {SCORE} > score"])
def test_number_itself(session: Session, sql: str) -> None:
    """A promise about the number itself is refused, and the error says what to write."""
    with pytest.raises(AICallError, match=r"needs a comparison with a constant number, such as ai_score\(…\) >= 7"):
        session.execute(sql)


@pytest.mark.parametrize("condition", ["= 3", "<> 3", "IN (2, 5)", "NOT IN (2, 5)", "IN (2, 5, 7, 8)"])
def test_equality_of_expected_values(database: Database, session: Session, condition: str) -> None:
    """An expected value hardly ever equals a number, so a promise refuses it; a whole answer can be compared."""
    with pytest.raises(AICallError, match=r"expected => false in the call, or a range such as BETWEEN 1\.5 AND 2\.5"):
        session.execute(f"SELECT id FROM people WHERE {SCORE} {condition}")
    whole = SCORE.replace(TARGETS, f", expected => false{TARGETS}")
    assert len(folded(database, f"SELECT id FROM people WHERE {whole} {condition}")) == 1


def test_without_a_promise(database: Database) -> None:
    """Without targets, and where the label is shown too, nothing is folded."""
    assert not folded(database, "SELECT id FROM people WHERE ai_score('How happy?', note) >= 7")
    assert not folded(database, f"SELECT id, {LABEL} AS l FROM people WHERE {LABEL} = 'a'")
