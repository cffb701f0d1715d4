"""The examples: the same for a seed, and the very prompts that a query sends."""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from tests.training.test_language import FILES
from training.examples import Ask, held_out, held_out_writer, training_family
from training.passages.films import unseen_genres
from training.passages.topics import unseen_topics
from training.phrases import Split, load_language
from training.tasks.base import Example
from training.tasks.filters import ask_filter
from training.tasks.labels import ask_label
from training.tasks.needles import ask_needle
from training.tasks.scores import ask_score

WHOLE = {"aspects", "fields", "labels", "near", "nouns", "refs", "values", "words"}
"""Lists that are no patterns, and are used whole."""


@pytest.fixture(scope="module")
def families() -> list[list[Example]]:
    """Return the first families of a seed."""
    return [training_family(1, number) for number in range(400)]


@pytest.fixture(scope="module")
def examples(families: list[list[Example]]) -> list[Example]:
    """Return their examples."""
    return [example for family in families for example in family]


def test_same_seed_same_examples(families: list[list[Example]]) -> None:
    """Number N of a seed is always the same, another seed's another."""
    assert [training_family(1, number) for number in range(20)] == families[:20]
    assert [training_family(2, number) for number in range(20)] != families[:20]


def test_every_answer_is_one_the_function_takes(examples: list[Example]) -> None:
    """The function's own parser reads each answer; free text comes back as it is."""
    for example in examples:
        call = example.call()
        parsed = call.parse(example.answer)
        assert parsed is not None
        if call.function in {"ai_gen", "ai_summarize", "ai_translate"} and "response_format" not in dict(
            example.options
        ):
            assert parsed == example.answer.strip()


def test_tasks_are_mixed(examples: list[Example]) -> None:
    """Each task comes up, and Yes and No are about equally frequent."""
    tasks = Counter(example.task for example in examples)
    assert {"filter", "classify", "score", "extract", "question", "summary", "sentiment", "needle", "decline"} <= set(
        tasks
    )
    answers = Counter(example.answer for example in examples if example.task == "filter")
    assert 0.4 < answers["Yes"] / answers.total() < 0.6


def test_families_share_a_row(families: list[list[Example]]) -> None:
    """All prompts of a family begin with the same fields, or the same long text, and ask different things."""
    several = [family for family in families if len(family) > 1]
    assert {family[0].task for family in several} > {"needle", "filter"}
    for family in several:
        prompts = [example.prompt() for example in family]
        assert len(set(prompts)) == len(family)
        if family[0].task in {"needle", "long filter"}:
            last_words = family[0].fields[0][1].splitlines()[-1]
            assert len({prompt[: prompt.index(last_words)] for prompt in prompts}) == 1
        else:
            assert len({example.fields for example in family}) == 1
            assert all(example.fields_first for example in family)


class Recorder(random.Random):
    """A random generator that remembers what it chose."""

    chosen: ClassVar[set[str]] = set()

    def choice(self, seq: Any) -> Any:
        """Choose as ever."""
        found = super().choice(seq)
        if isinstance(found, str):
            self.chosen.add(found)
        return found


def kept_out(value: Any, name: str = "") -> Iterator[str]:
    """Yield the held-out entries of all lists of a language file that are split."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from kept_out(inner if key != "words" else (), key)
    elif isinstance(value, list) and len(value) >= 8 and name not in WHOLE:
        yield from Split.HELD_OUT.of(value)


@pytest.mark.slow
def test_training_uses_no_held_out_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentences, questions and statements kept for tests are never chosen; with tests' examples they are."""
    kept = {entry for name in FILES for key, value in load_language(name).items() if key != "words"
            for entry in kept_out(value, key)}  # fmt: skip
    assert len(kept) > 900
    monkeypatch.setattr("training.examples.random.Random", Recorder)
    for number in range(1500):
        training_family(1, number)
    assert len(Recorder.chosen) > 3000
    assert not Recorder.chosen & kept
    held_out(ask_filter, 5, 300)
    assert len(Recorder.chosen & kept) > 300


def test_training_offers_no_unseen_label(examples: list[Example]) -> None:
    """Topics and genres kept for tests are neither labels nor summaries in training."""
    topics, genres = load_language("topics")["topic"], load_language("films")["genre"]
    unseen = {label for name in unseen_topics() for label in topics[name]["labels"]}
    unseen |= {label for name in unseen_genres() for label in genres[name]["labels"]}
    labels = [example.literal for example in examples if example.function == "ai_classify"]
    offered = {label for offer in labels if isinstance(offer, tuple) for label in offer}
    assert len(offered) > 200
    assert not offered & unseen
    summaries = " ".join(example.answer for example in examples if example.task == "summary")
    assert not [label for label in unseen if f"about {label}." in summaries]


def test_ends_of_values_are_marked(examples: list[Example]) -> None:
    """Of most facts that are asked for, a mark says where the value ends in the text that tells it."""
    asked = [e for e in examples if e.task == "question" and any(e.answer in value for _, value in e.fields)]
    marked = [
        example
        for example in asked
        if any(words.endswith(example.answer) and meaning.startswith("end of ") for words, meaning in example.marks)
    ]
    assert len(marked) > 0.8 * len(asked) > 10


@pytest.mark.parametrize("ask", [ask_filter, ask_label, ask_score])
def test_held_out_examples_are_new(ask: Ask, examples: list[Example]) -> None:
    """No text of a test example comes up in training."""
    trained = {value for example in examples for _, value in example.fields if len(value) > 60}
    tested = {value for example in held_out(ask, 5, 100) for _, value in example.fields if len(value) > 60}
    assert tested
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
    assert needles
    for example in needles:
        text = example.fields[0][1]
        assert text.count(" ") > 500
        assert 0 <= text.find(example.answer) < len(text) * 0.6
