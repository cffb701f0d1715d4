"""The cost model: a sensible start, what observations change, and prices."""

import pytest

from flightllm.config import EngineConfig
from flightllm.llm.cost import Costs, Prices, Work

SMALL = Work(calls=10, prompt_tokens=1_000, cached_tokens=0, completion_tokens=20)
LARGE = Work(calls=1_000, prompt_tokens=300_000, cached_tokens=200_000, completion_tokens=8_000)


def test_before_anything_was_seen() -> None:
    """Without observations more work takes more time, and cached tokens less than computed ones."""
    costs = Costs()
    assert 0 < costs.seconds(SMALL) < costs.seconds(LARGE)
    assert costs.seconds(LARGE) < costs.seconds(Work(1_000, 300_000, 0, 8_000))
    assert costs.seconds(Work()) == 0


@pytest.mark.parametrize("seconds", [0.5, 500.0])
def test_one_observation(seconds: float) -> None:
    """After one pass of work, the same work is predicted to take as long, and twice the work twice as long."""
    costs = Costs()
    costs.observe(LARGE, seconds)
    assert costs.seconds(LARGE) == pytest.approx(seconds, rel=0.1)
    assert costs.seconds(LARGE + LARGE) == pytest.approx(2 * seconds, rel=0.1)


def test_many_observations() -> None:
    """Rates unlike the prior's are found from work of different kinds."""
    costs = Costs()

    def true(work: Work) -> float:
        computed = work.prompt_tokens - work.cached_tokens
        return 0.001 * work.calls + 1e-4 * computed + 3e-5 * work.completion_tokens

    for i in range(60):
        work = Work(10 + 7 * (i % 5), 5_000 + 900 * (i % 7), 400 * (i % 11), 100 + 300 * (i % 3))
        costs.observe(work, true(work))
    assert costs.seconds(LARGE) == pytest.approx(true(LARGE), rel=0.1)


def test_engine_gets_slower() -> None:
    """What was seen last counts most."""
    costs = Costs()
    for seconds in [1.0] * 50 + [5.0] * 200:
        costs.observe(LARGE, seconds)
    assert costs.seconds(LARGE) == pytest.approx(5.0, rel=0.1)


def test_nothing_to_learn() -> None:
    """Work without calls, or that took no time, changes nothing."""
    costs = Costs()
    before = costs.seconds(LARGE)
    costs.observe(Work(), 3.0)
    costs.observe(LARGE, 0.0)
    assert costs.seconds(LARGE) == before


def test_prices() -> None:
    """Prices are per million tokens, cached input has its own where one is given."""
    work = Work(10, 3_000_000, 1_000_000, 500_000)
    assert Prices(2.0, 0.5, 8.0).price(work) == pytest.approx(4.0 + 0.5 + 4.0)
    assert Prices.of(EngineConfig("fake")) is None
    given = Prices.of(EngineConfig("fake", price_input=2.0))
    assert given == Prices(2.0, 2.0, 0.0)
    assert Costs(given).price(work) == pytest.approx(6.0)
    assert Costs().price(work) is None


def test_hit_rate() -> None:
    """The hit rate is a share of the prompts' tokens, 0 without any."""
    assert LARGE.hit_rate == pytest.approx(2 / 3)
    assert Work().hit_rate == 0
