"""Guards: a call is made only where SQL's short circuits leave it undecided, and never changes what comes out."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, ask_both, explained, planned

VALUES = "(VALUES (true, 'a'), (false, 'b'), (NULL, 'c')) AS t(p, x)"
AI = "ai_filter('q', x)"


@pytest.mark.parametrize(
    ("expression", "calls"),
    [
        (f"p AND {AI}", 2),
        (f"{AI} AND p", 2),
        (f"p OR {AI}", 2),
        (f"{AI} OR p", 2),
        (f"NOT (p AND {AI})", 2),
        (f"coalesce(p, {AI})", 1),
        (f"CASE WHEN p THEN {AI} END", 1),
        (f"CASE WHEN p THEN true ELSE {AI} END", 2),
        (f"CASE WHEN p THEN 1 WHEN {AI} THEN 2 END", 2),
        (f"CASE WHEN NOT p THEN 1 WHEN p IS NULL THEN 2 WHEN {AI} THEN 3 END", 1),
        (f"CASE p WHEN true THEN {AI} WHEN false THEN NULL ELSE {AI} END", 2),
        (f"p IS NULL AND {AI} IS NOT NULL", 1),
        (f"(p AND {AI}) OR {AI}", 3),
        (f"(p AND {AI}) OR (NOT p AND ai_filter('r', x))", 4),
        ("CASE WHEN ai_filter('q', x) THEN ai_filter('r', x) END IS NULL OR ai_filter('q', x)", None),
    ],
)
def test_three_values(session: Session, expression: str, calls: int | None) -> None:
    """Only rows whose answer can matter are asked, with TRUE, FALSE and NULL beside the call."""
    on, off = ask_both(session, f"SELECT x, {expression} AS r FROM {VALUES}")
    assert calls is None or on.calls == calls
    assert on.calls <= off.calls


def test_plain_first(session: Session) -> None:
    """An operand without a call decides first wherever it stands; of two calls the first guards the second."""
    on, _ = ask_both(session, f"SELECT {AI} AND x = 'z' AND ai_filter('r', x) FROM {VALUES}")
    assert on.calls == 0
    one = ask(session, f"SELECT {AI} FROM {VALUES}", cache="off")
    true = sum(row is True for row in one.table.column(0).to_pylist())
    on, _ = ask_both(session, f"SELECT {AI} AND ai_filter('r', x) FROM {VALUES}")
    assert on.calls == 3 + true


def test_unconditional_elsewhere(database: Database) -> None:
    """A call that one expression always needs is made once, without a guard, for all of them."""
    before, _, _ = planned(database, f"SELECT p AND {AI}, {AI} AS f FROM {VALUES}")
    assert before == "Project(AiMap[ai_filter](Project(rows)))"


def test_filtered_measure(session: Session) -> None:
    """The argument of an aggregate with FILTER is asked only where the filter is true."""
    on, _ = ask_both(session, f"SELECT count(ai_gen('g', x)) FILTER (WHERE p), count({AI}) FROM {VALUES}")
    assert on.calls == 4


def test_nested_arguments(session: Session) -> None:
    """The call inside a guarded call's arguments has the same guard."""
    on, _ = ask_both(session, f"SELECT CASE WHEN p THEN ai_gen('g', a => ai_gen('h', x)) END FROM {VALUES}")
    assert on.calls == 2


def test_random_is_no_guard(session: Session) -> None:
    """A guard would evaluate `random()` anew, so it is none: every row that comes out was asked."""
    sql = "SELECT x FROM (VALUES ('a'), ('b'), ('c'), ('d')) AS t(x) WHERE random() > 2 OR ai_gen('q', x) IS NOT NULL"
    assert ask(session, sql).table.num_rows == 4
    halves = "CASE WHEN random() < 0.5 THEN 'low' ELSE ai_gen('q', id) END"
    ran = ask(session, f"SELECT {halves} AS h FROM (SELECT value AS id FROM generate_series(1, 200))")
    assert ran.table.column("h").null_count == 0


def conditions() -> st.SearchStrategy[str]:
    """Generate boolean expressions of columns and calls."""
    leaves = st.sampled_from(["flag", "score > 2", "name IS NULL", "note = 'likes tea'", "NULL::boolean", "true"])
    calls = st.sampled_from(
        ["ai_filter('a', note)", "ai_filter('b', name)", "ai_score('c', note) > 4", "ai_sentiment(name) = 'mixed'"]
    )
    return st.recursive(
        leaves | calls,
        lambda inner: st.one_of(
            st.builds("({} AND {})".format, inner, inner),
            st.builds("({} OR {})".format, inner, inner),
            st.builds("(NOT {})".format, inner),
            st.builds("coalesce({}, {})".format, inner, inner),
            st.builds("(CASE WHEN {} THEN {} ELSE {} END)".format, inner, inner, inner),
            st.builds("(CASE {} WHEN {} THEN {} END)".format, inner, inner, inner),
            st.builds("({} IS NOT TRUE)".format, inner),
            st.builds("nullif({}, {})".format, inner, inner),
        ),
        max_leaves=6,
    )


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(conditions(), conditions())
def test_any_condition(session: Session, first: str, second: str) -> None:
    """Whatever the expression, on and off agree, as a value and as a predicate."""
    on, off = ask_both(session, f"SELECT id, {first} AS a, {second} AS b FROM people")
    assert on.calls <= off.calls
    on, off = ask_both(session, f"SELECT id, {second} AS b FROM people WHERE {first}")
    assert on.calls <= off.calls


@pytest.mark.slow
def test_deeper_than_a_plan_can_be(session: Session) -> None:
    """Conditions within conditions, which DataFusion multiplies, run as plain functions."""
    condition = "ai_filter('0', note)"
    for number in range(1, 9):
        condition = f"CASE WHEN {condition} THEN ai_filter('{number}', note) END"
    ask_both(session, f"SELECT id FROM people WHERE {condition}")
    assert "batch functions" in explained(session, f"SELECT id FROM people WHERE {condition}")
