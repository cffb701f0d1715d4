"""The segment that moves balances two replicas; it begins and ends where little is computed twice."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flightllm.router.segment import Segment, find_segment


def test_half_of_the_difference_moves() -> None:
    """The last five of ten equal prompts move to an idle replica."""
    found = find_segment(np.ones(10), np.zeros(10), 10.0, 0.0)
    assert found == (5, 10, 5.0, 5.0)


def test_the_example_of_find_segment() -> None:
    """The table in the docstring holds: the third prompt moves, which costs nothing extra."""
    found = find_segment(np.full(3, 2.0), np.array([0.0, 1.0, 0.0]), 6.0, 0.0)
    assert found == Segment(2, 3, saved_seconds=2.0, added_seconds=2.0)


def test_cuts_are_where_nothing_is_shared() -> None:
    """Groups of three move whole if the remaining imbalance costs less than a shared prefix."""
    extra = np.array([0.0, 4, 4] * 4)
    found = find_segment(np.ones(12), extra, 12.0, 1.0)
    assert found is not None
    assert (found.start % 3, found.end % 3) == (0, 0)


def test_no_move_costs_more_than_it_saves() -> None:
    """Two neighbours that share nearly all tokens stay together; a single prompt stays on the busy replica."""
    assert find_segment(np.array([10.0, 1.0]), np.array([0.0, 9.0]), 11.0, 8.0) is None
    assert find_segment(np.ones(1), np.zeros(1), 1.0, 1.0) is None


@given(st.lists(st.tuples(st.floats(0.1, 9), st.floats(0, 9)), min_size=1), st.floats(0, 50))
def test_both_are_done_sooner(prompts: list[tuple[float, float]], light: float) -> None:
    """After any move, the later of both replicas is done sooner than before."""
    seconds, extra = np.array(prompts).T
    heavy = float(seconds.sum())
    found = find_segment(seconds, extra, heavy, light)
    if found is not None:
        assert 0 <= found.start < found.end <= len(prompts)
        assert max(heavy - found.saved_seconds, light + found.added_seconds) < heavy
