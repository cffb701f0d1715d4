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
    side.learn([(0, 100)], 1.0)
    assert side.prefill(0, 100) == pytest.approx(1.0)
    side.learn([(0, 100)], 2.0)
    assert side.prefill(0, 100) == pytest.approx(1.5)
    side.learn([(0, 100)], 0.5)
    assert side.prefill(0, 100) == pytest.approx(1.4)


def test_a_step_without_time() -> None:
    """A clock that does not move is no reason to fail at the next step."""
    side = timer()
    for seconds in (0.0, 0.0, 1.0):
        side.learn([(0, 100)], seconds)
    assert side.prefill(0, 100) == pytest.approx(0.5, rel=0.01)


def test_several_prompts_in_a_step() -> None:
    """Each prompt's part counts at its place: eight short prompts need less attention than a long one."""
    prefill = Prefill(Rates(call=0.0, computed=1e-3), attention=1e-3)
    side = StepTimer(prefill, torch.device("cpu"))
    parts = [(500, 1_500)] * 8
    for _ in range(2):
        side.learn(parts, 8 * prefill(500, 1_500))
        assert side.prefill(0, 1_000) == pytest.approx(prefill(0, 1_000))


def test_steps() -> None:
    """A step that computes a prompt is measured; one that only answers is not."""
    side = timer()
    side.begin([(0, 8)])
    side.end()
    assert side.prefill(0, 100) == 1_000.0
    side.begin([(0, 1_000)])
    side.end()
    assert 0.0 <= side.prefill(0, 1_000) < 1_000.0
