"""A batch is partitioned into runs of about equal seconds, of whole groups if the groups are small enough."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from flightllm.router.fleet import Fleet
from flightllm.router.partition import _Timeline, _water_level, partition_prompts
from flightllm.router.prefix_sorted_batch import PrefixSortedBatch
from flightllm.router.prompt import RoutedPrompt
from tests.routing import BLOCK, assign, fleet, prompt


def films(count: int, reviews: int, blocks: int = 8) -> list[RoutedPrompt]:
    """Return `reviews` prompts about each film; all share the instruction, those of a film share its blocks too."""
    return [
        prompt(film * reviews + review, [0] * BLOCK + [film + 1] * (blocks * BLOCK) + [review] * BLOCK, 1)
        for film in range(count)
        for review in range(reviews)
    ]


def partition_among(made: Fleet, prompts: list[RoutedPrompt]) -> list[list[int]]:
    """Partition prompts and assign them; return the keys of the prompts of each replica."""
    batch = PrefixSortedBatch.of(made, prompts)
    runs: list[list[int]] = [[] for _ in made.caches]
    for one, replica in zip(batch.prompts, partition_prompts(batch, made.up, made.load).tolist(), strict=True):
        runs[replica].append(one.key)
        assign(made, one, replica)
    return runs


def test_groups_stay_whole() -> None:
    """Each of four replicas gets four whole films of sixteen."""
    runs = partition_among(fleet(4), films(16, 5))
    assert [len(run) for run in runs] == [20] * 4
    assert all(len({key // 5 for key in run}) == 4 for run in runs)


def test_a_group_too_large_is_cut() -> None:
    """If all prompts are about one film, every replica computes the film and gets about equal work."""
    made = fleet(3)
    runs = partition_among(made, films(1, 90))
    assert sorted(key for run in runs for key in run) == list(range(90))
    assert made.load.max() < 1.1 * made.load.min()


def test_a_busier_replica_gets_less() -> None:
    """Earlier work counts; a replica that stays busy longer than all others gets nothing."""
    made = fleet(3)
    for key in range(100, 112):
        assign(made, prompt(key, [key] * 40), 0)
    for key in range(200, 206):
        assign(made, prompt(key, [key] * 40), 1)
    runs = partition_among(made, films(8, 4, blocks=2))
    assert not runs[0]
    assert len(runs[1]) < len(runs[2])


def test_a_group_goes_on_where_it_began() -> None:
    """Later prompts about the last film go to the replica that holds the film."""
    made = fleet(4)
    prompts = films(9, 8)
    first = partition_among(made, prompts[:-4])
    (owner,) = (number for number, run in enumerate(first) if prompts[-5].key in run)
    rest = films(13, 8)[len(prompts) - 4 :]
    second = partition_among(made, rest)
    assert {one.key for one in prompts[-4:]} <= set(second[owner])


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 30)), min_size=1, max_size=60),
    st.lists(st.floats(0, 0.1), min_size=1, max_size=5),
)
def test_every_prompt_gets_a_replica(shapes: list[tuple[int, int, int]], loads: list[float]) -> None:
    """With any prompts and any loads, each prompt gets a replica and the load is near the least possible."""
    made = fleet(len(loads))
    made.load[:] = loads
    prompts = [
        prompt(key, [top] * BLOCK + [below] * BLOCK + [key] * more) for key, (top, below, more) in enumerate(shapes)
    ]
    batch = PrefixSortedBatch.of(made, prompts)
    chosen = partition_prompts(batch, made.up, made.load)
    assert set(chosen.tolist()) <= set(made.up)
    busy = np.array(loads) + [batch.uncached_seconds[chosen == replica].sum() for replica in made.up]
    level = max(*loads, (sum(loads) + batch.uncached_seconds.sum()) / len(loads))
    assert busy.max() <= level + 2 * batch.uncached_seconds.max()


def test_the_example_of_find_end() -> None:
    """The table in the docstring of `_Timeline` holds, and runs end where the next one costs nothing extra."""
    timeline = _Timeline.of(np.array([5.0, 1.0, 5.0]), np.array([0.0, 4.0, 0.0]))
    assert (timeline.elapsed.tolist(), timeline.extra.tolist()) == ([0, 5, 6, 11], [0, 4, 0, 0])
    assert [timeline.find_end(0, room) for room in (4.0, 5.5, 6.0, 11.0)] == [0, 1, 2, 3]
    assert (timeline.run_seconds(0, 2), timeline.run_seconds(1, 3)) == (6, 10)


def test_the_example_of_water_level() -> None:
    """Two of three replicas share the work; a replica above the level gets nothing."""
    assert _water_level([9.0, 1.0, 4.0], 5.0) == 5
