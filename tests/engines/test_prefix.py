"""The simulated prefix cache: what is found again, what is evicted, what running requests hold."""

from collections.abc import Sequence

import pytest

from flightllm.engines.prefix import PrefixSimulator, SimulatedRequest, chained
from flightllm.llm.engine import PrefixCache


def hits(simulator: PrefixSimulator, prompts: Sequence[Sequence[int]], size: int, answer: int = 1) -> list[int]:
    """Run prompts of tokens to their end and return the cached tokens of each."""
    runs = []
    for number, tokens in enumerate(prompts):
        parts = (tuple(tokens[i : i + size]) for i in range(0, len(tokens) - size + 1, size))
        runs.append(SimulatedRequest(number, chained(parts), len(tokens), answer))
        simulator.add(runs[-1])
    for _ in range(10_000):
        if not simulator.in_flight:
            break
        simulator.step()
    assert not simulator.in_flight
    return [run.cached_tokens for run in runs]


def test_shared_prefix_in_one_step() -> None:
    """Requests that run at once share what the first of them computes, in full blocks only."""
    prompts = [[*range(10), 100 + i, 200 + i] for i in range(3)]
    assert hits(PrefixSimulator(PrefixCache(4, None), 8), prompts, 4) == [0, 8, 8]


def test_nothing_shared_at_once() -> None:
    """Where a cache gives blocks only after their request ended, those that run beside it compute them too."""
    prompts = [[*range(10), 100 + i, 200 + i] for i in range(3)]
    assert hits(PrefixSimulator(PrefixCache(4, None, at_once=False), 2), prompts, 4) == [0, 0, 8]


def test_last_token_is_computed() -> None:
    """A prompt that is cached in full still computes its last block; one token more and it does not."""
    simulator = PrefixSimulator(PrefixCache(4, None), 8)
    assert hits(simulator, [list(range(8)), list(range(8)), list(range(9))], 4) == [0, 4, 8]


def test_middle_is_no_prefix() -> None:
    """Equal blocks after different ones share nothing."""
    prompts = [[1, 2, 3, 4, 5, 6, 7, 8, 0], [9, 2, 3, 4, 5, 6, 7, 8, 0]]
    assert hits(PrefixSimulator(PrefixCache(4, None), 8), prompts, 4) == [0, 0]


@pytest.mark.parametrize(("blocks", "expected"), [(6, [0, 0, 8]), (3, [0, 0, 0])])
def test_eviction(blocks: int, expected: list[int]) -> None:
    """Where the cache is too small, what another prompt needed is gone."""
    a, b = list(range(10)), list(range(50, 60))
    assert hits(PrefixSimulator(PrefixCache(4, blocks), 1), [a, b, a], 4) == expected


def test_end_is_evicted_before_beginning() -> None:
    """Of a prompt that loses a part of its blocks, the beginning stays and is found."""
    a, b = list(range(17)), list(range(50, 57))
    assert hits(PrefixSimulator(PrefixCache(4, 5), 1), [a, b, a], 4) == [0, 0, 12]


@pytest.mark.parametrize(("answer", "expected"), [(2, [0, 0, 0, 8]), (3, [0, 0, 0, 4])])
def test_answers_fill_blocks(answer: int, expected: list[int]) -> None:
    """A block that an answer filled is kept, and takes room from the prompts; its last token is not computed."""
    a, b, c = list(range(10)), list(range(50, 60)), list(range(70, 80))
    assert hits(PrefixSimulator(PrefixCache(4, 8), 1), [a, b, c, a], 4, answer) == expected


def test_running_requests_hold_their_blocks() -> None:
    """A request waits for blocks that running ones hold, however many may run at once."""
    simulator = PrefixSimulator(PrefixCache(4, 5), 8)
    for number in range(2):
        simulator.add(SimulatedRequest(number, chained(iter([(number, 0), (number, 1)])), 8, 3))
    assert [[run.id for run in simulator.step()] for _ in range(6)] == [[], [], [0], [], [], [1]]


def test_larger_than_the_cache() -> None:
    """A prompt larger than the whole cache runs alone, and the cache has its size again afterwards."""
    simulator = PrefixSimulator(PrefixCache(4, 3), 8)
    large, small = list(range(40)), list(range(100, 109))
    assert hits(simulator, [large, small, small], 4) == [0, 0, 8]


def test_long_prompts_take_several_steps() -> None:
    """A prompt longer than a step is computed in parts."""
    simulator = PrefixSimulator(PrefixCache(4, None), 8, step_tokens=10)
    simulator.add(SimulatedRequest(0, [], 25, 1))
    assert [len(simulator.step()) for _ in range(3)] == [0, 0, 1]


def test_tokens_of_a_step() -> None:
    """A step tells what it computed: of prompts only what was not cached, and a token for each answer under way."""
    simulator = PrefixSimulator(PrefixCache(4, None), 8, 12)
    for number in range(2):
        simulator.add(SimulatedRequest(number, chained(iter([0, 1])), 10, 2))
    steps = []
    while simulator.in_flight:
        simulator.step()
        steps.append((simulator.computed, simulator.decoding))
    assert steps == [(12, 0), (0, 2)]
