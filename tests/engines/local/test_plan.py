"""Cutting prompts into batches: always a cover, always a true common prefix, and the cheap cut where one is obvious."""

from hypothesis import given
from hypothesis import strategies as st

from flightllm.engines.local.plan import Batch, best_order, plan_batches

PROMPTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), max_size=30)


@given(PROMPTS, st.integers(1, 6), st.integers(1, 60))
def test_batches_cover_the_prompts(prompts: list[list[int]], rows: int, tokens: int) -> None:
    """Batches follow each other without gaps, within both bounds, each prefix common and shorter than every prompt."""
    batches = plan_batches(prompts, rows, tokens)
    assert [index for batch in batches for index in range(batch.start, batch.stop)] == list(range(len(prompts)))
    for batch in batches:
        members = prompts[batch.start : batch.stop]
        assert len(members) <= rows
        assert len(members) == 1 or len(members) * max(map(len, members)) <= tokens
        assert all(member[: batch.prefix] == members[0][: batch.prefix] for member in members)
        assert batch.prefix < min(map(len, members))


def test_groups_stay_together() -> None:
    """Two groups with long prefixes of their own become two batches, though they share a few tokens."""
    common = [0, 0, 0]
    groups = [[*common, *([group] * 200), row] for group in (1, 2) for row in (7, 8, 9)]
    assert plan_batches(groups, 32, 100_000) == [Batch(0, 3, 203), Batch(3, 6, 203)]


def test_strangers_share_a_batch() -> None:
    """Short prompts that share nothing run together: a pass per prompt would cost more."""
    assert plan_batches([[1, 1], [2, 2], [3, 3]], 32, 100_000) == [Batch(0, 3, 0)]


def test_a_lone_prompt_reuses_what_is_there() -> None:
    """A batch of one reuses what it shares with the prompt before, or with what an earlier call kept."""
    prompts = [[5] * 50 + [row] for row in range(3)]
    assert plan_batches(prompts, 2, 100_000)[-1].prefix == 50
    assert plan_batches(prompts[:1], 2, 100_000) == [Batch(0, 1, 0)]
    assert plan_batches(prompts[:1], 2, 100_000, kept=[5] * 20 + [6]) == [Batch(0, 1, 20)]


def test_prompts_that_share_a_start_are_neighbours() -> None:
    """Prompts that alternate between two starts are sorted; an order that shares as much stays."""
    one, other = [1] * 50, [2] * 50
    alternating = [[*start, n] for n in range(4) for start in (one, other)]
    order = best_order(alternating)
    assert [alternating[place][0] for place in order] == [1] * 4 + [2] * 4
    assert list(best_order([other, one])) == [0, 1]
    assert list(best_order([])) == []
