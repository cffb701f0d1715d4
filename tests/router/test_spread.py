"""A line is cut into runs of about the same time, of whole groups where these are small enough."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from flightllm.router.base import Prompt
from flightllm.router.fleet import Fleet
from flightllm.router.line import Line
from flightllm.router.spread import spread
from tests.routing import BLOCK, assign, fleet, prompt


def films(count: int, reviews: int, blocks: int = 8) -> list[Prompt]:
    """Return prompts about films, so many about each, that share the instruction and the film's blocks."""
    return [
        prompt(film * reviews + review, [0] * BLOCK + [film + 1] * (blocks * BLOCK) + [review] * BLOCK, 1)
        for film in range(count)
        for review in range(reviews)
    ]


def spread_over(made: Fleet, prompts: list[Prompt]) -> list[list[int]]:
    """Return the keys of the prompts of each replica, assigned to it."""
    line = Line.of(made, prompts)
    runs: list[list[int]] = [[] for _ in made.caches]
    for one, replica in zip(line.prompts, spread(line, made.up, made.load).tolist(), strict=True):
        runs[replica].append(one.key)
        assign(made, one, replica)
    return runs


def test_groups_stay_whole() -> None:
    """Sixteen films over four replicas: four films each, none on two of them."""
    runs = spread_over(fleet(4), films(16, 5))
    assert [len(run) for run in runs] == [20] * 4
    assert all(len({key // 5 for key in run}) == 4 for run in runs)


def test_a_group_too_large_is_cut() -> None:
    """All about one film: every replica computes it, and has about as much to do."""
    made = fleet(3)
    runs = spread_over(made, films(1, 90))
    assert sorted(key for run in runs for key in run) == list(range(90))
    assert made.load.max() < 1.1 * made.load.min()


def test_who_has_more_to_do_gets_less() -> None:
    """Work given before counts; a replica that is busy for longer than all others will be gets nothing."""
    made = fleet(3)
    for key in range(100, 112):
        assign(made, prompt(key, [key] * 40), 0)
    for key in range(200, 206):
        assign(made, prompt(key, [key] * 40), 1)
    runs = spread_over(made, films(8, 4, blocks=2))
    assert not runs[0]
    assert len(runs[1]) < len(runs[2])


def test_a_group_goes_on_where_it_began() -> None:
    """What comes later about the last film goes to the replica that has it."""
    made = fleet(4)
    prompts = films(9, 8)
    first = spread_over(made, prompts[:-4])
    (owner,) = (number for number, run in enumerate(first) if prompts[-5].key in run)
    rest = films(13, 8)[len(prompts) - 4 :]
    second = spread_over(made, rest)
    assert {one.key for one in prompts[-4:]} <= set(second[owner])


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 30)), min_size=1, max_size=60),
    st.lists(st.floats(0, 0.1), min_size=1, max_size=5),
)
def test_everyone_has_a_place(shapes: list[tuple[int, int, int]], loads: list[float]) -> None:
    """Any prompts, any loads: all are placed, and none is far above what it must be."""
    made = fleet(len(loads))
    made.load[:] = loads
    prompts = [
        prompt(key, [top] * BLOCK + [below] * BLOCK + [key] * more) for key, (top, below, more) in enumerate(shapes)
    ]
    line = Line.of(made, prompts)
    chosen = spread(line, made.up, made.load)
    assert set(chosen.tolist()) <= set(made.up)
    busy = np.array(loads) + [line.fresh[chosen == replica].sum() for replica in made.up]
    level = max(*loads, (sum(loads) + line.fresh.sum()) / len(loads))
    assert busy.max() <= level + 2 * line.fresh.max()
