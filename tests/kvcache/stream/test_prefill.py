"""What computing a part of a prompt is expected to take."""

import pytest

from flightllm.kvcache.stream.prefill import Prefill
from flightllm.llm.cost import Rates

RATES = Rates(call=0.1, computed=1e-3, cached=0.0)


def test_without_attention() -> None:
    """Every token costs the same, and a call something of its own; no tokens cost nothing."""
    assert Prefill(RATES)(500, 1_500) == pytest.approx(1.1)
    assert Prefill(RATES)(500, 500) == 0.0


def test_later_tokens_cost_more() -> None:
    """With attention the parts of a prompt add up to the whole, the later ones dearer, but for each one's call."""
    prefill = Prefill.of(RATES, layers=32, width=4_096, parameters=7_000_000_000)
    early, late = prefill(0, 5_000), prefill(5_000, 10_000)
    assert early < late
    assert early + late == pytest.approx(prefill(0, 10_000) + RATES.call)
    assert prefill.attention * 10_000 == pytest.approx(0.374, rel=0.01)
