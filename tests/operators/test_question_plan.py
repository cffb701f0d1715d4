"""The choice by price which questions share a request."""

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pytest

from flightllm.engines.fake.engine import FakeEngine, FakeOptions
from flightllm.functions.call import AICall
from flightllm.llm.cost import Costs, Prices
from flightllm.llm.engine import Choice, Parameters, PrefixCache
from flightllm.observe.query_record import CallRecord
from flightllm.operators.cache import CacheKeys
from flightllm.operators.call_context import CallSite
from flightllm.operators.question_plan import Decision, Later, QuestionPlan
from flightllm.operators.question_prices import QuestionPrices

FILTER = Parameters(8, constraint=Choice(("Yes", "No")))


class Hosted(FakeEngine):
    """An engine whose provider has a prefix cache."""

    def __init__(self, cache: PrefixCache | None) -> None:
        super().__init__("demo", 8, FakeOptions())
        self.cache = cache

    @property
    def prefix_cache(self) -> PrefixCache | None:
        """Return the cache."""
        return self.cache


def sites_of(calls: int, *, fields_first: bool) -> list[CallSite]:
    """Return sites of filters over one field."""
    sites = []
    for number in range(calls):
        call = AICall(
            f"stub{number}", "ai_filter", "ai_filter(…)", f"Is number {number} right?",
            fields=("text",), required=frozenset({0}), parameters=FILTER, output=pa.bool_(), parse=str, on_error="null",
        )  # fmt: skip
        keys, counters = CacheKeys(call, "model"), CallRecord("ai_filter", "")
        site = CallSite(call, ((0,),), (0,), None, None, keys, counters, fields_first)
        sites.append(replace(site, joined_fields_first=fields_first))
    return sites


def plan_of(
    words: int,
    calls: int = 3,
    cache: PrefixCache | None = None,
    *,
    most: int = 8,
    fields_first: bool = False,
    prices: Prices | None = None,
) -> tuple[QuestionPlan, list[str]]:
    """Return a plan for filters over a text of so many words, and what it tells."""
    sites = sites_of(calls, fields_first=fields_first)
    rows = [[("text", f"{place} " + "word " * words)] for place in range(4)]
    costs = Costs(prices or Prices(1.0, 0.1, 4.0))
    told: list[str] = []
    priced = QuestionPrices(sites, Hosted(cache), costs, rows, 0.0)
    return QuestionPlan(frozenset(range(calls)), most, priced, 100, told.append), told


@pytest.mark.parametrize(("words", "joined"), [(2, False), (500, True)])
def test_long_rows_share_requests(words: int, joined: bool) -> None:
    """Questions about long rows share a request; about short rows, the codes of the answers cost more."""
    plan, told = plan_of(words)
    assert plan.decide((0, 1, 2), ()) == Decision(joined=joined)
    assert ("3 in one request, " in told[0]) == joined
    assert "in place of" in told[0]


def test_a_saving_within_the_error_of_estimates() -> None:
    """Where sharing saves less than estimates can be off, EXPLAIN says this, and no cost of 0.95 times as much."""
    plan, told = plan_of(48)
    assert plan.decide((0, 1, 2), ()) == Decision(joined=False)
    both = "0.0219 in place of 0.0231 by the model's prices"
    assert told == [f"one after another: one request saves only 5.2% ({both}); estimates can be 10% off"]


def test_groups() -> None:
    """Groups have nearly equal sizes, and at most as many questions as the session wishes."""
    plan, _ = plan_of(500, 5, most=2)
    assert plan.groups((0, 1, 2, 3, 4)) == [(0,), (1, 2), (3, 4)]
    assert plan.groups((0, 1)) == [(0, 1)]


@pytest.mark.parametrize(("kept", "decision"), [(0.01, Decision(joined=False)), (0.9, Decision(joined=True, steps=1))])
def test_a_filter_waits_or_takes_others_along(kept: float, decision: Decision) -> None:
    """The questions of a later step go with the filter's if most rows reach them."""
    plan, told = plan_of(500)
    assert plan.decide((0,), ((kept, (1, 2)),)) == decision
    assert len(told) == 1


def test_later_questions_share_without_the_filter() -> None:
    """Where a fifth of the rows pass, the later questions share a request of their own."""
    plan, told = plan_of(500, 4)
    later: Later = ((0.15, (1, 2, 3)),)
    assert plan.decide((0,), later) == Decision(joined=False)
    assert told[0].startswith("3 in one request, those of later steps for rows that the filters keep, ")


def test_never_dearer() -> None:
    """Whatever the rows that pass, the chosen way costs no more than one after another."""
    for words in (1, 20, 60, 150, 400):
        for kept in (0.0, 0.1, 0.3, 0.5, 0.8, 1.0):
            plan, _ = plan_of(words)
            cost = plan.prices.cost
            decision = plan.decide((0,), ((kept, (1, 2)),))
            apart = cost((0,), again=False) + kept * (cost((1,), again=True) + cost((2,), again=True))
            chosen = cost((0, 1, 2), again=False) if decision.joined else apart
            assert chosen <= apart


HOT = PrefixCache(16, None, floor_tokens=64, read=0.05)


@pytest.mark.parametrize(("cache", "joined"), [(None, True), (HOT, False)])
def test_a_hot_cache(cache: PrefixCache | None, joined: bool) -> None:
    """With the fields first, a cache serves them to later questions for nearly nothing, and EXPLAIN says so."""
    plan, told = plan_of(200, 2, cache, fields_first=True, prices=Prices(1.0, 0.05, 8.0))
    assert plan.decide((0, 1), ()).joined == joined
    assert ("because the prefix cache serves" in told[0]) == (not joined)


def test_a_fee_for_storing() -> None:
    """A provider that charges for storing the fields makes later questions dearer, so they share the request."""
    free, paid = Prices(1.0, 0.1, 4.0), Prices(1.0, 0.1, 4.0, written=1.25)
    costs: Mapping[bool, float] = {
        fee: plan_of(400, 2, replace(HOT, write=1.25 if fee else 1.0), fields_first=True, prices=paid if fee else free)[
            0
        ].prices.cost((0,), again=False)
        for fee in (False, True)
    }
    assert costs[True] > costs[False]
