"""Runs of equal elements have their lengths."""

import pyarrow as pa

from flightllm.functions.run_lengths import run_lengths


def test_lengths() -> None:
    """Each list has its own lengths; NULL and no elements stay."""
    lists = pa.array([["a", "a", "b", "a"], [], None], pa.list_(pa.string()))
    assert run_lengths(lists).to_pylist() == [[2, 1, 1], [], None]
