"""The fleet: loads are what was given and not answered, requests are recent for a while, replicas come and go."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightllm.errors import EngineUnavailableError
from flightllm.llm.cost import Rates
from flightllm.router.fleet import Fleet
from tests.routing import BLOCK, assign, fleet, prompt

TOKENS = list(range(8))


def test_loads_are_what_is_not_answered() -> None:
    """A prompt counts with its prefill and its answer until it is answered; then nothing is left."""
    made = Fleet(BLOCK, Rates(call=1.0, computed=0.5, cached=0.25, completion=2.0))
    made.add(None)
    assign(made, prompt(0, TOKENS, answer_tokens=3), 0)
    assert (made.prefill[0], made.decode[0], made.load[0], made.requests[0]) == (5.0, 6.0, 11.0, 1)
    assign(made, prompt(1, [*TOKENS, 9], answer_tokens=3), 0)
    assert made.open[1].cached_tokens == 8
    assert made.load[0] == 11.0 + 1 + 0.5 + 8 * 0.25 + 6.0
    made.finished(0)
    made.finished(1)
    assert (made.prefill[0], made.decode[0], made.load[0], made.requests[0]) == (0, 0, 0, 0)


def test_last_token_is_computed() -> None:
    """Of a prompt that is held in full the last block is computed again, as engines do."""
    made = fleet(1)
    assign(made, prompt(0, TOKENS), 0)
    assert made.cached_tokens(prompt(1, TOKENS), made.insert(prompt(1, TOKENS)), 0) == 4


def test_answers_are_as_long_as_those_before() -> None:
    """What is known of answers with the same limit is expected of the next one."""
    made = fleet(1)
    assert made.answer_tokens(prompt(0, TOKENS, 64)) == 64
    for key, length in enumerate((10, 20)):
        assign(made, prompt(key, TOKENS, 64), 0)
        made.finished(key, length)
    assert made.answer_tokens(prompt(2, TOKENS, 64)) == pytest.approx(15, abs=0.1)
    assert made.answer_tokens(prompt(2, TOKENS, 32)) == 32


def test_answers_are_as_long_as_those_of_the_call_site() -> None:
    """Call sites with one limit differ in their instructions, and have lengths of their own; a new one has the mean."""
    made = fleet(1)
    short, long, new = ([site] * 40 for site in (1, 2, 3))
    for key in range(20):
        assign(made, prompt(key, [*(long if key % 2 else short), key], 64), 0)
        made.finished(key, 50 if key % 2 else 10)
    assert made.answer_tokens(prompt(50, [*short, 9], 64)) == pytest.approx(10)
    assert made.answer_tokens(prompt(51, [*long, 9], 64)) == pytest.approx(50)
    assert made.answer_tokens(prompt(52, [*new, 9], 64)) == pytest.approx(30, abs=1)


def test_waits_leave_out_what_is_computed() -> None:
    """A replica's wait is its prompts' prefill, less the time since; it is 0 without prompts."""
    made = fleet(2)
    assert made.waits(5.0).tolist() == [0.0, 0.0]
    for key in range(3):
        assign(made, prompt(key, list(range(1_000 * key, 1_000 * key + 80))), 0, 5.0)
    one = made.open[0].prefill
    assert made.waits(5.0).tolist() == [pytest.approx(3 * one), 0.0]
    assert made.waits(5.0 + one)[0] == pytest.approx(2 * one)
    assert made.waits(9.0)[0] == 0.0
    made.withdrawn(2)
    assert made.waits(5.0)[0] == pytest.approx(2 * one)
    made.finished(0)
    made.finished(1)
    assert made.waits(5.0).tolist() == [0.0, 0.0]


def test_waits_of_a_replica_that_is_never_idle() -> None:
    """Predictions that were twice too long do not add up: a wait is at most what is open."""
    made = fleet(2)
    one = made.rates.prefill(80)
    made.assign(prompt(0, [0] * 80), made.insert(prompt(0, [0] * 80)), 0, 0.0)
    for key in range(1, 200):
        asked = prompt(key, [key] * 80)
        made.assign(asked, made.insert(asked), 0, key * one / 2)
        made.finished(key - 1)
    assert made.waits(100 * one)[0] <= one * 1.001
    made.learn(made.rates._replace(computed=made.rates.computed / 2, call=made.rates.call / 2))
    assert made.waits(100 * one)[0] <= one * 0.501


def test_what_is_open_is_predicted_anew() -> None:
    """New rates, and answers shorter than they might be, count for the prompts under way too; who is down stays so."""
    made = Fleet(BLOCK, Rates(call=1.0, computed=0.5, cached=0.0, completion=2.0))
    for _ in range(2):
        made.add(None)
    for key in range(3):
        assign(made, prompt(key, TOKENS, 64), 0)
    made.finished(0, 4)
    assert made.load[0] == 2 * (1 + 4 * 0.5 + 128)
    made.retire(1)
    made.learn(Rates(call=2.0, computed=1.0, cached=0.0, completion=1.0))
    assert (made.prefill[0], made.decode[0], made.load[0]) == (12.0, 8.0, 20.0)
    assert made.load[1] == np.inf
    made.finished(1, 4)
    assert made.load[0] == 10


def test_what_is_ahead_of_a_priority() -> None:
    """Less urgent prompts are not in the way of more urgent ones."""
    made = Fleet(BLOCK, Rates(call=1.0, computed=0.0, cached=0.0, completion=0.0))
    for _ in range(2):
        made.add(None)
    for key, (priority, replica) in enumerate(((0, 0), (0, 0), (0, 1), (-1, 1))):
        assign(made, prompt(key, TOKENS, priority=priority), replica)
    assert made.ahead(0).tolist() == [2, 2]
    assert made.ahead(-1).tolist() == [0, 1]
    assert made.ahead(-2).tolist() == [0, 0]
    made.finished(3)
    assert made.ahead(-1).tolist() == [0, 0]


def test_requests_are_recent_for_the_window() -> None:
    """Requests are counted on their way through the tree until the window has passed."""
    made = fleet(1, window_seconds=10.0)
    leaf = made.insert(prompt(0, TOKENS))
    assign(made, prompt(0, TOKENS), 0, 0.0)
    assign(made, prompt(1, TOKENS), 0, 5.0)
    assert (leaf.recent, made.recent) == ({0: 2}, 2)
    assign(made, prompt(2, [50, 51, 52, 53]), 0, 12.0)
    assert (leaf.recent, made.recent) == ({0: 1}, 2)


def test_a_prompt_that_comes_again_as_it_expires() -> None:
    """Its node stays in the tree where its earlier request is forgotten in the same moment."""
    made = Fleet(BLOCK, window_seconds=10.0)
    made.add(None, exact=True)
    assign(made, prompt(0, TOKENS), 0, 0.0)
    made.finished(0)
    assign(made, prompt(1, TOKENS), 0, 10.0)
    assert made.open[1].leaf in made.tree.walk()
    assert made.insert(prompt(2, TOKENS)) is made.open[1].leaf


def test_a_lost_replica() -> None:
    """Its prompts come back, it holds nothing, and it is not chosen before it is brought back."""
    made = fleet(2)
    for key in range(4):
        assign(made, prompt(key, [key] * 8), key % 2)
    assert [one.key for one in made.lose(1)] == [1, 3]
    assert (made.up, made.is_up(1), made.load[1], made.caches[1].used) == ([0], False, np.inf, 0)
    assert sorted(made.open) == [0, 2]
    made.bring_back(1)
    assert (made.up, made.load[1]) == ([0, 1], 0.0)
    made.lose(0)
    made.lose(1)
    with pytest.raises(EngineUnavailableError, match="no replica"):
        _ = made.up


@given(st.lists(st.tuples(st.lists(st.integers(0, 1), max_size=16), st.integers(0, 2), st.booleans()), max_size=30))
def test_nothing_is_left_of_what_is_over(asked: list[tuple[list[int], int, bool]]) -> None:
    """When all is answered and the window has passed, no load is left and only what is held is in the tree."""
    made = fleet(3, 4, window_seconds=5.0)
    for key, (tokens, replica, ends) in enumerate(asked):
        assign(made, prompt(key, tokens), replica, float(key))
        assert made.load.sum() == pytest.approx(sum(one.prefill + one.decode for one in made.open.values()))
        if ends:
            made.finished(key, 3)
    for key in list(made.open):
        made.finished(key)
    assign(made, prompt(-1, []), 0, 1e6)
    made.finished(-1)
    assert made.load.tolist() == [0.0] * 3
    assert all(node.held or node.children for node in made.tree.walk())
    assert not any(node.open or node.recent for node in made.tree.walk())
