"""Queries whose AI calls are operators: what EXPLAIN says of them."""

from flightllm.session.session import Session
from tests.databases import ask, explained

AI = "SELECT id, ai_gen('x', note) AS g FROM people WHERE ai_filter('y', name) AND score > 1 ORDER BY id LIMIT 2"


def test_explain_operators(session: Session) -> None:
    """EXPLAIN shows the rules, each stage and each operator with its call, fields and type, by the text of the user."""
    lines = explained(session, AI)
    assert lines["rules"]
    operators = [text for title, text in lines.items() if title.startswith("ai operator")]
    assert [text.split(" = ", 1)[1].splitlines()[0] for text in operators] == [
        "ai_gen('x', note)",
        "ai_filter('y', name)",
    ]
    assert "fields (note = c" in operators[0]
    assert "returns string" in operators[0]
    stages = {title: text for title, text in lines.items() if title.startswith("stage")}
    assert "batch by batch" in stages["stage result"]
    assert any("people.score > Float64(1)" in text for text in stages.values())


def test_explain_guard(session: Session) -> None:
    """EXPLAIN says which calls are made for some rows only."""
    lines = explained(session, "SELECT CASE WHEN flag THEN ai_gen('x', note) END FROM people")
    (operator,) = (text for title, text in lines.items() if title.startswith("ai operator"))
    assert "only where c" in operator


def test_explain_steps(session: Session) -> None:
    """EXPLAIN names `fuse`, and says which calls its operator asks together, which wait, and where rows are dropped."""
    lines = explained(
        session,
        "SELECT ai_gen('g', note), ai_score('s', note) FROM people WHERE ai_filter('x', note) AND"
        " ((ai_filter('y', name) AND ai_filter('z', name)) OR score > 3)",
    )
    assert lines["rules"].split(", ")[-1] == "fuse"
    (operator,) = (text for title, text in lines.items() if title.startswith("ai operator"))
    assert "only where s0_c2 > Float64(3) IS NOT TRUE AND s0_c4 IS NOT FALSE" in operator
    assert operator.splitlines()[-4:] == [
        "step 1: asks s0_c3; keeps the rows where s0_c3",
        "step 2: asks s0_c4, then s0_c5; keeps the rows where s0_c4 AND s0_c5 OR s0_c2 > Float64(3)",
        "step 3: asks s0_c6 and s0_c7",
        "runs the steps that drop rows in the order that is cheapest on the rows so far",
    ]


def test_explain_long_values(session: Session) -> None:
    """A value of a condition is searched for names of columns once, however long a word it is."""
    word = "x" * 400_000
    lines = explained(session, f"SELECT id FROM people WHERE ai_filter('y', name) OR name = '{word}'")
    assert any(f"""OR s0_c1 = Utf8("{word}")""" in text for text in lines.values())


def test_explain_without_steps(session: Session) -> None:
    """An operator that drops no rows has no steps, and `fuse` did not fire."""
    lines = explained(session, "SELECT ai_gen('g', note) FROM people")
    assert "fuse" not in lines["rules"]
    assert not any("step 1" in text for text in lines.values())


def test_explain_analyze(session: Session) -> None:
    """EXPLAIN ANALYZE runs the query and adds what each call took."""
    lines = {
        row["plan_type"]: row["plan"]
        for row in ask(session, "EXPLAIN ANALYZE SELECT ai_gen('z', note) FROM people").rows
    }
    assert lines["calls of s0"].startswith("ai_gen('z', note)\n")
    predicted, actual = (line.split()[:5] for line in lines["calls of s0"].splitlines()[-2:])
    assert predicted == ["predicted", *actual[1:]] == ["predicted", "9", "4", "0", "4"]
