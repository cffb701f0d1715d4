"""The engine's speed of computing is learned from its steps."""

import pytest

pytest.importorskip("torch", reason="the extra 'local' is not installed")

import torch

from flightllm.kvcache.connector.timing import StepTimer
from flightllm.kvcache.stream.prefill import Prefill
from flightllm.llm.cost import Rates


def timer() -> StepTimer:
    """Return a timer on the CPU that assumes that computing takes for ever."""
    return StepTimer(Prefill(Rates(call=0.0, computed=10.0)), torch.device("cpu"))


def test_first_measurement() -> None:
    """The first measurement replaces the assumed speed, and later ones move the estimate."""
    side = timer()
    side.learn(100, 1.0)
    assert side.prefill(0, 100) == pytest.approx(1.0)
    side.learn(100, 2.0)
    assert side.prefill(0, 100) == pytest.approx(1.5)
    side.learn(100, 0.5)
    assert side.prefill(0, 100) == pytest.approx(1.4)


def test_steps() -> None:
    """A step that computes a prompt is measured; one that only answers is not."""
    side = timer()
    side.begin(8)
    side.end()
    assert side.prefill(0, 100) == 1_000.0
    side.begin(1_000)
    side.end()
    assert 0.0 <= side.prefill(0, 1_000) < 1_000.0
