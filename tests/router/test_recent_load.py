"""The work that replicas were given in the last while."""

import numpy as np

from flightllm.router.recent_load import RecentLoad


def test_work_counts_for_the_window() -> None:
    """It is summed by replica, forgotten after the window, and infinite where a replica is down."""
    recent = RecentLoad(10.0)
    recent.add(2, 3.0, 0.0)
    recent.add(2, 4.0, 5.0)
    unfinished = np.array([0.0, np.inf, 0.0, 0.0])
    assert recent.load(unfinished, 9.0).tolist() == [0.0, np.inf, 7.0, 0.0]
    assert recent.load(unfinished, 10.0).tolist() == [0.0, np.inf, 4.0, 0.0]
    assert recent.load(unfinished, 20.0).tolist() == [0.0, np.inf, 0.0, 0.0]
