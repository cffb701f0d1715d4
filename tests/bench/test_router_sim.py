"""The workloads of the router's simulation, and the command that compares policies on them."""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from bench.router_speed import speeds
from bench.router_workloads import WORKLOADS

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if "queries" in name else []) for name in WORKLOADS]
)
def test_workloads_follow_the_seed(name: str) -> None:
    """The same seed gives the same prompts at the same times, in order, at the rate asked for; another seed others."""
    workload = WORKLOADS[name]
    if workload.table and "FLIGHTLLM_DATA" not in os.environ:
        pytest.skip("needs the traces, in the folder FLIGHTLLM_DATA")
    one, again, other = (list(workload.arrivals(seed, 400, 20.0)) for seed in (1, 1, 2))
    assert one == again != other
    assert len(one) == 400
    assert all(left.at <= right.at for left, right in pairwise(one))
    assert 14 < one[-1].at - one[0].at < 26
    assert all(0 < arrival.answer_tokens <= arrival.most_tokens for arrival in one)


def test_tools_are_shared() -> None:
    """Prompts of a tool begin alike, and one tool is asked far more than others."""
    starts = [one.tokens[:2_000] for one in WORKLOADS["tools"].arrivals(0, 500, 1.0)]
    counts = sorted((starts.count(start) for start in set(starts)), reverse=True)
    assert 50 < len(counts) <= 100
    assert counts[0] > 5 * counts[10]


@pytest.mark.slow
def test_speed_is_measured() -> None:
    """Decisions are timed with as many prompts in the tree as asked for, few under way and many."""
    found = speeds(["round_robin", "e2"], 1_000)
    assert found["e2, edges in the tree"] > 1_000
    timed = [
        f"{policy}, {count} open, decisions per second" for policy in ("e2", "round_robin") for count in (256, 4_096)
    ]
    assert all(found[name] > 0 for name in timed)


@pytest.mark.slow
def test_command_compares_policies() -> None:
    """In its quick form the command runs policies and E2's parts on two workloads, and prints one object."""
    for more in ([], ["--ablation", "--learned", "--engine", "28m-cpu"]):
        command = [sys.executable, "-m", "bench.router_sim", "--quick", "--json", *more]
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        figures = json.loads(done.stdout.splitlines()[-1])
        tools = figures["tools, 2 replicas"]
        assert tools["e2"]["prompts"] == 300
        assert all(0 < one["hit_ratio"] < 1 for one in tools.values())
        assert figures["nothing shared, 2 replicas"]["e2"]["hit_ratio"] == 0
