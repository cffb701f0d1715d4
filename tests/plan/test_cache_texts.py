"""The words of EXPLAIN about a provider's cache."""

import pytest

from flightllm.llm.cost import Costs, ModelCosts, Prices, Work
from flightllm.llm.engine import PrefixCache
from flightllm.plan.cache_texts import bills, cache_rules_text

HOSTED = PrefixCache(128, None, at_once=False, floor_tokens=1_024, read=0.1, write=1.25, seconds=300.0)


@pytest.mark.parametrize(
    ("cache", "prices", "text"),
    [
        (None, None, ""),
        (PrefixCache(16, 100), None, ""),
        (PrefixCache(1, None, floor_tokens=1 << 40), None, "no prompt is cached"),
        (HOSTED, None, "prompts from 1,024 tokens in steps of 128, read 0.1 x, write 1.25 x, kept 5 min"),
        (
            PrefixCache(1, None, floor_tokens=64, whole=True, share=0.5),
            Prices(2.0, 0.5, 8.0),
            (
                "prompts from 64 tokens, read 0.25 x, write 1 x, only whole prompts are found again;"
                " the endpoint reports 50 % of the possible hits"
            ),
        ),
    ],
    ids=["none", "own", "uncached", "hosted", "prices"],
)
def test_rules(cache: PrefixCache | None, prices: Prices | None, text: str) -> None:
    """The prices count where they are known."""
    assert cache_rules_text(cache, prices) == text


def test_bills() -> None:
    """The bill without a cache has neither found nor stored tokens; without prices there is no bill."""
    works: dict[str | None, Work] = {None: Work(1, 1_000_000, 500_000, 0, 100_000)}
    costs = ModelCosts({None: Costs(Prices(1.0, 0.1, 0.0, 1.25))})
    assert bills(works, costs) == "the bill is 0.575; without a cache it is 1"
    assert bills(works, ModelCosts({None: Costs()})) == ""
