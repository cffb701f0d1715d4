"""Every workload of the simulation is there, and its figures are told."""

import pytest

from bench.eviction_replay import compare
from bench.eviction_sim import curves, main, show
from bench.eviction_workloads import Event, What
from flightllm.kvcache.eviction.base import Use


def test_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Hits in % by size, and which share of the gap a policy closes; a curve shows points above LRU."""
    events = [Event(float(at), What.PASSES, Use(keys)) for at, keys in enumerate([[1], [2], [3], [2], [1]] * 2)]
    found = {size: compare(events, size, ["lru", "fifo"]) for size in (1, 2)}
    show("some", found)
    told = capsys.readouterr().out
    assert "| some: hits, %, by blocks cached | 1 | 2 |" in told
    assert "| lru | 10.00 | 40.00 |" in told
    assert "| fifo | 0 | -50 |" in told
    assert curves(found)["fifo"] == [(1, 0.0), (2, pytest.approx(-10.0))]
    assert "ideal" not in curves(found)


def test_unknown_workloads_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Which there are is told."""
    with pytest.raises(SystemExit):
        main(["--workload", "nothing"])
    assert "4 queries" in capsys.readouterr().err
