"""`e2`: to what is cached, elsewhere when that is better, and each part of it by itself."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightllm.errors import EngineUnavailableError
from flightllm.llm.cost import Rates
from flightllm.router.base import create_router
from flightllm.router.e2 import E2, PAPER, E2Options
from flightllm.router.fleet import Fleet
from tests.routing import BLOCK, assign, fleet, prompt

LONG = list(range(80))
PLAIN = E2Options(rebalance=0.0, autoscale=False, decode_balance=False)


def busy(made: Fleet, replica: int, seconds: float) -> None:
    """Give a replica work of so many seconds that shares nothing."""
    made.load[replica] += seconds
    made.prefill[replica] += seconds


def one(router: E2, key: int, tokens: list[int], now: float = 0.0) -> int:
    """Route a prompt."""
    (found,) = router.route([prompt(key, tokens)], now)
    return found


def test_exploits_what_is_mostly_cached() -> None:
    """A prompt goes where more than half of it is cached, though another replica has less to do."""
    made = fleet(3)
    router = E2(made, PLAIN)
    assign(made, prompt(0, LONG), 1)
    assert one(router, 1, [*LONG, 1, 2, 3]) == 1
    assert one(router, 2, [*LONG[:44], *range(500, 540)]) == 1


def test_explores_what_is_mostly_new() -> None:
    """A prompt of which less than half is cached goes to the replica with least to do."""
    made = fleet(3)
    router = E2(made, PLAIN)
    assign(made, prompt(0, LONG), 1)
    busy(made, 0, 1.0)
    assert one(router, 1, [*LONG[:36], *range(500, 540)]) == 2


def test_without_exploitation() -> None:
    """Left out, what is cached counts only as work saved."""
    made = fleet(2)
    assign(made, prompt(0, LONG), 1)
    busy(made, 1, 1.0)
    assert one(E2(made, PLAIN), 1, LONG) == 1
    assert one(E2(made, replace(PLAIN, exploit=False)), 2, LONG) == 0


def test_least_loaded_of_those_that_hold_it() -> None:
    """Of two that hold a prefix, the one with less to do is taken."""
    made = fleet(3)
    for key, replica in enumerate((1, 2)):
        assign(made, prompt(key, LONG), replica)
        made.finished(key)
    router = E2(made, PLAIN)
    busy(made, 1, 1.0)
    assert one(router, 10, [*LONG, 1]) == 2
    busy(made, 2, 2.0)
    assert one(router, 11, [*LONG, 2]) == 1


def test_redirects_from_the_overloaded() -> None:
    """Where the load is far above the lightest a prompt is computed anew elsewhere, but not for a trifle."""
    made = fleet(2)
    assign(made, prompt(0, LONG), 0)
    made.finished(0)
    cost = made.rates.computed * 76
    router = E2(made, E2Options(autoscale=False))
    busy(made, 0, 8 * cost)
    assert one(router, 1, LONG) == 0
    made.finished(1)
    busy(made, 0, 16 * cost)
    assert one(E2(made, PLAIN), 2, LONG) == 0
    assert one(router, 3, LONG) == 1


@pytest.mark.parametrize("crowd", [96.0, 0.0])
def test_a_crowd_gets_another_replica(crowd: float) -> None:
    """Many prompts of one prefix at once spread, long before the loads differ as much as `guard` asks for."""
    made = fleet(2)
    router = E2(made, replace(PLAIN, crowd=crowd))
    chosen = [one(router, key, [*LONG, *range(1_000 * key, 1_000 * key + 40)]) for key in range(1, 61)]
    assert set(chosen[:5]) == {0}
    assert set(chosen) == ({0, 1} if crowd else {0})


def test_a_wait_without_a_crowd() -> None:
    """A prompt stays with its prefix behind long prompts of others: nobody else would use the copy."""
    made = fleet(2)
    assign(made, prompt(0, LONG), 0)
    made.finished(0)
    assign(made, prompt(1, list(range(5_000, 5_800))), 0)
    router = E2(made, PLAIN)
    assert one(router, 2, LONG) == 0
    assert made.waits(0.0)[0] > 5 * made.rates.prefill(len(LONG))


@pytest.mark.parametrize(
    ("eviction", "asked", "expected"),
    [("reuses", 1, 1), ("reuses", 3, 0), ("requests", 1, 0), ("requests", 3, 0), ("none", 1, 1), ("none", 3, 1)],
)
def test_what_an_eviction_costs(eviction: Literal["reuses", "requests", "none"], asked: int, expected: int) -> None:
    """What was asked for once need not come back, what was asked for again does; in the paper each request counts."""
    made = fleet(2, 20)
    for key in range(asked):
        assign(made, prompt(key, list(range(300, 380))), 1)
        made.finished(key)
    busy(made, 0, made.rates.computed * 20)
    parts = replace(PLAIN, eviction=eviction)
    assert one(E2(made, parts), 10, list(range(900, 980))) == expected


def test_hot_prefixes_get_another_replica() -> None:
    """A prefix that is much of what is asked, and whose prompts wait longer, is computed on a second replica."""
    options = replace(PLAIN, autoscale=True)
    for parts, expected in ((options, {0, 1}), (replace(options, autoscale=False), {0})):
        made = fleet(2)
        router = E2(made, parts)
        assert {one(router, key, [*LONG, key], key / 10) for key in range(60)} == expected


def test_new_work_goes_where_answers_are_written() -> None:
    """What must be computed goes to a replica that only decodes, rather than to one that computes as much."""
    rates = Rates(call=0.0, computed=0.01, cached=0.0, completion=0.01)
    for parts, expected in ((PLAIN, 0), (replace(PLAIN, decode_balance=True), 1)):
        made = Fleet(BLOCK, rates)
        for _ in range(2):
            made.add(None)
        assign(made, prompt(0, list(range(600, 630)), 8), 0)
        assign(made, prompt(1, [1, 2, 3], 40), 1)
        assert made.load[1] > made.load[0]
        assert one(E2(made, parts), 2, LONG) == expected


def test_load_of_the_window() -> None:
    """As in the paper, what was answered counts until the window has passed."""
    made = fleet(2, window_seconds=10.0)
    router = E2(made, replace(PLAIN, load="window"))
    for key, expected in enumerate((0, 1)):
        assert one(router, key, list(range(key * 1_000, key * 1_000 + 80 * (3 * key + 1)))) == expected
        made.finished(key)
    assert one(router, 2, list(range(5_000, 5_020)), 1.0) == 0
    assert one(router, 3, list(range(6_000, 6_200)), 2.0) == 0


def test_replicas_that_are_down() -> None:
    """A lost replica is not asked, and what it held is computed elsewhere; without any there is an error."""
    made = fleet(2)
    router = create_router("e2", made)
    assign(made, prompt(0, LONG), 0)
    made.lose(0)
    assert router.route([prompt(1, LONG)], 0.0) == [1]
    made.lose(1)
    with pytest.raises(EngineUnavailableError):
        router.route([prompt(2, LONG)], 0.0)


def test_many_replicas() -> None:
    """Among a hundred replicas the free one is found, and so is the one that holds a prefix."""
    made = fleet(100)
    made.load[:] = 5.0
    made.load[73] = 0.0
    router = E2(made, PLAIN)
    assert one(router, 0, LONG) == 73
    busy(made, 73, 100.0)
    assert one(router, 1, LONG) == 73


@pytest.mark.parametrize("options", [E2Options(), PAPER, PLAIN])
@given(
    prompts=st.lists(st.tuples(st.lists(st.integers(0, 1), max_size=24), st.booleans()), max_size=40),
    lost=st.sets(st.integers(0, 3), max_size=3),
)
def test_any_stream_is_routed(options: E2Options, prompts: list[tuple[list[int], bool]], lost: set[int]) -> None:
    """Whatever comes goes to a replica that is up and is counted there, and no load is left at the end."""
    made = fleet(4, 5, window_seconds=8.0)
    router = E2(made, options)
    for replica in lost:
        made.lose(replica)
    for key, (tokens, ends) in enumerate(prompts):
        chosen = one(router, key, tokens, float(key))
        assert chosen not in lost
        assert made.open[key].replica == chosen
        if ends:
            made.finished(key, 3)
    for key in list(made.open):
        made.finished(key)
    assert made.load[made.up].tolist() == [0.0] * (4 - len(lost))
    assert np.isinf(made.load[sorted(lost)]).all()
