"""Aggregates over a model as a user writes them."""

import pytest

from flightllm.dialect import rewrite
from flightllm.sql.aggregate_calls import as_written, with_calls_as_written
from flightllm.sql.parsed_text import ParsedText
from tests.dialect.places import EMPTY


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ai_agg(note, 'Sum it up')", ""),
        ("ai_agg(DISTINCT upper(note || ')'), 'It''s', max_tokens => 5, model => m)", ""),
        ("ai_agg(note, 'x', citations => t.id)", ""),
        ("ai_agg(note, 'x', citations => true, max_tokens => 5)", ""),
        ("ai_agg(note, 'x') FILTER (WHERE id > 1)", "ai_agg(note, 'x') FILTER (WHERE id > 1)"),
        ("ai_summarize_agg(note)", ""),
        ("ai_summarize_agg(CASE WHEN a THEN b END, max_words => 9)", ""),
        ("AI.AGG(note, 'x' 'y', endpoint => 'm')", "ai_agg(note, 'xy', model => 'm')"),
        ("ai_agg(input => note, instruction => 'x')", "ai_agg(note, 'x')"),
    ],
)
def test_as_written(text: str, shown: str) -> None:
    """The rewritten text is shown as it was written, and a second rewriting changes nothing."""
    found = rewrite(ParsedText(f"SELECT {text}"), EMPTY).text
    assert "array_agg(" in found
    assert as_written(found.removeprefix("SELECT ")) == (shown or text)
    assert rewrite(ParsedText(found), EMPTY).text == found


@pytest.mark.parametrize(
    "call", ["ai_agg(note, 'x')", "ai_agg(note, 'x', citations => id)", "ai_agg(DISTINCT note, 'x')"]
)
def test_beside_the_same_aggregate(call: str) -> None:
    """A rewritten call that stands beside a user's own aggregate of the column is shown as it was written, too."""
    found = rewrite(ParsedText(f"SELECT array_agg(note), array_agg(DISTINCT note), {call} FROM people"), EMPTY).text
    shown = found[found.index("ai_agg(text") :].removesuffix(" FROM people")
    assert as_written(shown) == call


LIST = (
    'column "t.a" must appear in GROUP BY, currently only "{}" appears in the SELECT clause satisfies this requirement'
)
"""An error of DataFusion, shortened."""
CALL, SHOWN = "__ai_1(__group_texts(array_agg(b)))", "ai_agg(b, 'x')"
JOINED = 'string_agg(t.b,Utf8(", "))'


@pytest.mark.parametrize(
    ("sql", "listed", "shown"),
    [
        (f"SELECT array_agg(a), {CALL}", "t.k, array_agg(t.a), array_agg(t.b)", f"t.k, array_agg(t.a), {SHOWN}"),
        (f"SELECT {CALL}", "array_agg(t.b) FILTER (WHERE t.a > Int64(1))", SHOWN),
        (f"SELECT {CALL} HAVING {CALL} > 'a'", "array_agg(t.b)", SHOWN),
        (f"SELECT {CALL}, array_agg(b)", "t.k, array_agg(t.b)", f"t.k, {SHOWN}"),
        (f"SELECT string_agg(b, ', '), {CALL}", f"{JOINED}, array_agg(t.b)", f"{JOINED}, {SHOWN}"),
        ("SELECT sum(a), ')' || array_agg(a)", "sum(t.a), array_agg(t.a)", "sum(t.a), array_agg(t.a)"),
    ],
)
def test_errors_about_group_by(sql: str, listed: str, shown: str) -> None:
    """The list of an error has the user's calls in place of the aggregates into which they were rewritten."""
    text = with_calls_as_written(LIST.format(listed), sql, {"__ai_1": SHOWN})
    assert text == LIST.format(shown)
    assert with_calls_as_written("no such column", sql, {"__ai_1": "x"}) == "no such column"


def test_other_texts() -> None:
    """Other texts stay as they are."""
    assert as_written("ai_gen('x', note)") == "ai_gen('x', note)"
    assert as_written("ai_agg(text => __group_texts(made_by_hand))") == "ai_agg(text => __group_texts(made_by_hand))"
