"""The stretch that is moved balances two replicas, and is cut where little is computed twice."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from flightllm.router.stretch import find_stretch


def test_half_of_the_difference_moves() -> None:
    """Of ten equal prompts the last five move to a replica that has none."""
    found = find_stretch(np.ones(10), np.zeros(10), 10.0, 0.0)
    assert found == (5, 10, 5.0, 5.0)


def test_cuts_are_where_nothing_is_shared() -> None:
    """Groups of three move as wholes where the imbalance that stays costs less than a shared prefix."""
    again = np.array([0.0, 4, 4] * 4)
    found = find_stretch(np.ones(12), again, 12.0, 1.0)
    assert found is not None
    assert (found.start % 3, found.end % 3) == (0, 0)


def test_a_move_that_costs_more_than_it_saves_is_none() -> None:
    """Two neighbours that share nearly everything stay together."""
    assert find_stretch(np.array([10.0, 1.0]), np.array([0.0, 9.0]), 11.0, 8.0) is None
    assert find_stretch(np.ones(1), np.zeros(1), 1.0, 1.0) is None


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 9), st.floats(0, 9)), min_size=1), st.floats(0, 50))
def test_both_are_done_sooner(prompts: list[tuple[float, float]], light: float) -> None:
    """Whatever is moved, the longer one of both becomes shorter."""
    seconds, again = np.array(prompts).T
    heavy = float(seconds.sum())
    found = find_stretch(seconds, again, heavy, light)
    if found is not None:
        assert 0 <= found.start < found.end <= len(prompts)
        assert max(heavy - found.less, light + found.more) < heavy
