"""The prompts of our own queries are recorded as the planner sends them."""

from itertools import pairwise

import pytest

from bench.common import data_table
from bench.prompt_streams import queries, streams
from bench.recording import encoder
from flightllm.router.tree import pack


@pytest.mark.parametrize("topic", ["movies", "products"])
def test_prompts_are_those_of_the_rows(monkeypatch: pytest.MonkeyPatch, topic: str) -> None:
    """A projection asks one prompt for each distinct row, with the text that the model would get."""
    monkeypatch.delenv("FLIGHTLLM_DATA", raising=False)
    (stream,) = streams(topic, ("q1",), 60)
    assert stream.name == f"{topic} q1"
    assert 40 < len(stream.prompts) <= 60
    text = encoder().tokenizer.decode([*memoryview(stream.prompts[0].tokens).cast("I")])
    assert "Sum up what the" in text
    assert {(one.answer_tokens, one.most_tokens) for one in stream.prompts} == {(8, 8)}


def test_neighbours_share_what_is_worth_ordering_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a cache too small for all films, prompts about the same film are neighbours."""
    monkeypatch.delenv("FLIGHTLLM_DATA", raising=False)
    (stream,) = streams("movies", ("q1",), 300, cache_blocks=64)
    tokens = [one.tokens for one in stream.prompts]
    assert _shared(tokens) > 0.99 * _shared(sorted(tokens))


def test_answers_are_as_long_as_their_constraint_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter and a projection in one query: the filter's answers are short, and only its rows go on."""
    monkeypatch.delenv("FLIGHTLLM_DATA", raising=False)
    (stream,) = streams("movies", ("q3",), 300)
    lengths = [one.answer_tokens for one in stream.prompts]
    assert set(lengths) == {2, 8}
    assert 0 < lengths.count(8) < lengths.count(2)


def test_beer_is_asked_about_too() -> None:
    """Nine short columns, whose names SQL must quote in part."""
    try:
        data_table("beer")
    except FileNotFoundError:
        pytest.skip("needs a folder FLIGHTLLM_DATA with the beer reviews")
    for stream in streams("beer", tuple(queries("beer")), 50):
        assert len(stream.prompts) == 50
        assert pack([]) not in {one.tokens for one in stream.prompts}


def _shared(texts: list[bytes]) -> int:
    """Return how many bytes texts begin with that the ones before them begin with too."""
    total = 0
    for left, right in pairwise(texts):
        length = min(len(left), len(right))
        total += next((i for i in range(length) if left[i] != right[i]), length)
    return total
