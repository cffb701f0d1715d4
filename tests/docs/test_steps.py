"""Sentences about the paper's queries say what the record has, also where a step gives nothing."""

from itertools import pairwise
from typing import Any

import pytest

from docs.steps import DEDUPLICATED, DEFAULTS, FIXED, GREEDY, gains, kinds, left_out, lost, orders, spread


def steps(*seconds: float, spread: float = 0.1) -> dict[str, Any]:
    """Return steps that take these seconds; the rounds of each differ by this share of the seconds."""
    low, high = 1 - spread / 2, 1 + spread / 2
    return {
        f"step {place}": {"seconds": one, "least_seconds": low * one, "most_seconds": high * one}
        for place, one in enumerate(seconds)
    }


def test_each_step_is_told_once() -> None:
    """The sentences name the step that saves the most, others that save, those without effect, and longer ones."""
    assert gains(steps(100, 50, 40, 39.5, 44)) == (
        "The step *step 1* saves the most: 50 s of 100 s. The seconds also fall with *step 2* (20 %). "
        "The seconds change by less than 10 % with *step 3*. The seconds grow with *step 4* (11 %)."
    )


@pytest.mark.parametrize("seconds", [(10.0, 10.0, 10.0), (10.0, 11.5)])
def test_nothing_saved_is_told(seconds: tuple[float, ...]) -> None:
    """Steps that take as long as before, or longer, are not praised."""
    assert gains(steps(*seconds)).startswith("No step saves 10 % of the seconds or more.")
    assert "saves the most" not in gains(steps(*seconds))


def test_a_large_step_below_the_limit_is_not_the_most() -> None:
    """The step that saves the most is one of those whose share counts; others save more seconds and less of them."""
    assert gains(steps(30, 29, 100, 98.5, spread=0.0)) == (
        "The step *step 1* saves the most: 1 s of 30 s. The seconds change by less than 3 % with *step 3*. "
        "The seconds grow with *step 2* (245 %)."
    )


@pytest.mark.parametrize(("spread", "praised"), [(0.02, True), (0.33, False)])
def test_rounds_that_differ_hide_small_savings(spread: float, praised: bool) -> None:
    """A saving counts only if it is as large as the largest difference between rounds of a step."""
    assert ("saves the most" in gains(steps(100, 80, spread=spread))) == praised
    assert ("less than 33 %" in gains(steps(100, 80, spread=spread))) != praised


@pytest.mark.parametrize(
    ("rounds", "told"), [(1, "There was one round"), (3, "medians of 3 rounds. The rounds of one")]
)
def test_rounds_are_told(rounds: int, told: str) -> None:
    """One round says that differences can be chance; several say how much they differ."""
    found = spread({"rounds": rounds, "whole": steps(10, 20)})
    assert told in found
    assert ("10 % at most" in found) == (rounds > 1)


@pytest.mark.parametrize(
    ("computed", "told"), [(150, "at most 33 % of these were computed again"), (100, "nothing was computed again")]
)
def test_what_the_cache_lost_is_told(computed: int, told: str) -> None:
    """The loss is what the original order computes above the least for its prompts."""
    one = {"computed_tokens": computed, "least_block_tokens": 100}
    caches = {"a": {"cache_tokens": 1_600}, "b": {"cache_tokens": 3_200}}
    found = lost({"whole": {"none": {}, "original": one}, "caches": caches, "in_flight": 2})
    assert told in found
    assert "2 prompts at once and a cache of 1,600 to 3,200 tokens" in found


def test_prompts_without_a_bound_are_counted() -> None:
    """The sentence has the number of prompts that the bound leaves out; there is no sentence if it has all of them."""
    assert "leaves out 3 prompts" in left_out({"undivided_prompts": 3})
    assert [left_out(one) for one in ({"undivided_prompts": 0}, {})] == ["", ""]


def test_kinds_of_queries_are_counted() -> None:
    """Queries of the same name count once over all tables."""
    queries: dict[str, Any] = {
        "movies": {"step": {"q1": {}, "q2": {}}},
        "questions": {"step": {"q5": {}}, "other": {"q5": {}}},
    }
    assert kinds({"queries": queries}) == "three kinds of queries"
    assert kinds({"queries": {"questions": queries["questions"]}}) == "one kind of queries"


def test_orders_are_compared_by_their_seconds() -> None:
    """The sentence has the seconds of the original order, of the defaults, and of both orders of fields."""
    names = ("original", DEDUPLICATED, DEFAULTS, FIXED, GREEDY)
    whole = {name: {"seconds": 10.0 * place} for place, name in enumerate(names, 1)}
    found = orders({"model": "small", "whole": whole})
    places = [
        found.index(text)
        for text in ("`small`", "20 s", "30 s with the defaults", "40 s with `fixed`", "50 s with `greedy`")
    ]
    assert all(left < right for left, right in pairwise(places))
