"""The sampling parameters that vLLM checks once."""

import pytest

from flightllm.engines.vllm.choices import FirstTokens
from flightllm.engines.vllm.sampling import SamplingMaker
from flightllm.llm.engine import Choice, Parameters
from tests.packages import NEEDS_VLLM

pytestmark = [NEEDS_VLLM, pytest.mark.vllm]


def test_prompts_with_different_room_are_checked_once() -> None:
    """Prompts of one call site share the check of their parameters, and each keeps its own limit of tokens."""
    maker, parameters = SamplingMaker(20, decodes=False), Parameters(max_tokens=4096, constraint=Choice(("Yes", "No")))
    first = FirstTokens({1: b"Yes", 2: b"No"}, {1: "Yes", 2: "No"})
    written = [maker.answer(parameters, room) for room in (900, 800, 900)]
    chosen = [maker.answer(parameters, room, first) for room in (900, 1)]
    assert [one.max_tokens for one in (*written, *chosen)] == [900, 800, 900, 1, 1]
    assert len({id(one) for one in written}) == 3
    assert len({id(one.passed) for one in written}) == 1
    assert written[0].passed is not chosen[0].passed
    assert chosen[0].passed is chosen[1].passed


def test_parameters_in_use_stay() -> None:
    """The parameters that were used least recently are dropped, and not those of a running call site."""
    maker, hot = SamplingMaker(20, decodes=False), Parameters(max_tokens=8)
    first = maker.answer(hot, 8)
    for number in range(300):
        maker.answer(Parameters(max_tokens=8, seed=number), 8)
        assert maker.answer(hot, 8).passed is first.passed
