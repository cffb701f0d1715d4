"""Aggregates over a model as a user writes them."""

import pytest

from flightllm.dialect import rewrite
from flightllm.sql.aggregate_calls import as_written
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


def test_other_texts() -> None:
    """Other texts stay as they are."""
    assert as_written("ai_gen('x', note)") == "ai_gen('x', note)"
    assert as_written("ai_agg(text => __group_texts(made_by_hand))") == "ai_agg(text => __group_texts(made_by_hand))"
