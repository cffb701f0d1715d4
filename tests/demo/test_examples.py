"""The examples: the same for a seed, and the very prompts that a query sends."""

from collections import Counter

import pytest

from flightllm.demo.examples import Ask, held_out, held_out_writer, training_family
from flightllm.demo.tasks.base import Example
from flightllm.demo.tasks.filters import ask_filter
from flightllm.demo.tasks.labels import ask_label
from flightllm.demo.tasks.needles import ask_needle
from flightllm.demo.tasks.scores import ask_score

FAMILIES = [training_family(1, number) for number in range(400)]
EXAMPLES = [example for family in FAMILIES for example in family]


def test_same_seed_same_examples() -> None:
    """Number N of a seed is always the same, another seed's another."""
    assert [training_family(1, number) for number in range(20)] == FAMILIES[:20]
    assert [training_family(2, number) for number in range(20)] != FAMILIES[:20]


def test_every_answer_is_one_the_function_takes() -> None:
    """The function's own parser reads each answer; free text comes back as it is."""
    for example in EXAMPLES:
        call = example.call()
        parsed = call.parse(example.answer)
        assert parsed is not None
        if call.function in {"ai_gen", "ai_summarize", "ai_translate"} and "response_format" not in dict(
            example.options
        ):
            assert parsed == example.answer.strip()


def test_tasks_are_mixed() -> None:
    """Each task comes up, and Yes and No are about equally frequent."""
    tasks = Counter(example.task for example in EXAMPLES)
    assert {"filter", "classify", "score", "extract", "question", "summary", "sentiment", "needle", "decline"} <= set(
        tasks
    )
    answers = Counter(example.answer for example in EXAMPLES if example.task == "filter")
    assert 0.4 < answers["Yes"] / answers.total() < 0.6


def test_families_share_a_row() -> None:
    """All prompts of a family begin with the same fields and ask different things."""
    several = [family for family in FAMILIES if len(family) > 1]
    assert several
    for family in several:
        assert len({example.fields for example in family}) == 1
        assert len({example.prompt() for example in family}) == len(family)
        assert all(example.fields_first for example in family)


@pytest.mark.parametrize("ask", [ask_filter, ask_label, ask_score])
def test_held_out_examples_are_new(ask: Ask) -> None:
    """No text of a test example comes up in training."""
    trained = {value for example in EXAMPLES for _, value in example.fields if len(value) > 60}
    tested = {value for example in held_out(ask, 5, 100) for _, value in example.fields if len(value) > 60}
    assert not trained & tested


def test_sql_quotes_what_it_must() -> None:
    """Quotes in prompts and lists are doubled; several fields of a one-field function go as a star."""
    fields = (("a", "x"), ("b", "y"))
    example = Example("filter", "ai_filter", "Is it 'good'?", fields, "Yes")
    assert example.sql() == """ai_filter('Is it ''good''?', "a", "b")"""
    several = Example("classify", "ai_classify", ("it's", "no"), fields, "no", (("multi", True),))
    assert several.sql() == "ai_classify(t.*, ['it''s', 'no'], multi => True)"


def test_needle_comes_early_and_is_asked_for_last() -> None:
    """The fact stands in the first third; the prompt is as long as asked."""
    writer = held_out_writer(1, "test")
    needles = [
        example for example in (ask_needle(writer, 600, early=True) for _ in range(30)) if example.task == "needle"
    ]
    for example in needles:
        text = example.fields[0][1]
        assert text.count(" ") > 500
        assert 0 <= text.find(example.answer) < len(text) * 0.6
