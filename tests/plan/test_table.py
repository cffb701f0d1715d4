"""Figures as text: aligned, without columns that say nothing."""

from dataclasses import replace

import pytest

from flightllm.llm.cost import Costs, ModelCosts, Prices
from flightllm.plan.figures import COUNTED, CallFigures, Explained, Figures, RuleSaving
from flightllm.plan.table import tables

ORDERS = [((f"field{i}",), 10 - i) for i in range(5)]
CALL = CallFigures("s0", "f", "f('x',\n  a)", dict.fromkeys(COUNTED, 0) | {"calls": 2_000, "rows": 30_000}, ORDERS)


def test_columns() -> None:
    """Numbers end below one another; a price is shown only where there are prices."""
    told = Explained("operators", "fake", [], Figures(5, (CALL,)), Figures(5, (CALL,), 1.0))
    for costs, shown in (
        (ModelCosts({None: Costs()}), False),
        (ModelCosts({None: Costs(Prices(1.0, 1.0, 1.0))}), True),
    ):
        texts = dict(tables(told, costs))
        header, predicted, actual = texts["calls of s0"].splitlines()[-3:]
        assert header.index("rows") + 4 == predicted.index("30,000") + 6 == actual.index("30,000") + 6
        assert ("price" in header) is shown
    assert texts["calls of s0"].startswith("f('x', a)\n")
    assert "and 2 other orders of the fields" in texts["calls of s0"]


@pytest.mark.parametrize(
    ("ordering", "layout", "said"),
    [
        ("none", "instruction first", "in the order of the rows; each begins with the instruction"),
        ("fixed", "fields first", "sorted, with one order of fields for all rows; each begins with the fields"),
    ],
)
def test_how_prompts_are_made(ordering: str, layout: str, said: str) -> None:
    """The order of the prompts and the beginning of each are said in words."""
    call = replace(CALL, notes={"ordering": ordering, "layout": layout})
    texts = dict(tables(Explained("operators", "fake", [], Figures(5, (call,)), None), ModelCosts({None: Costs()})))
    assert f"prompts: {said}" in texts["calls of s0"].splitlines()


@pytest.mark.parametrize(
    ("packed", "said"),
    [
        (0, ""),
        (1, "; 1 answer came in the request of another call"),
        (2, "; 2 answers came in requests of other calls"),
    ],
)
def test_answers_of_shared_requests(packed: int, said: str) -> None:
    """A line tells how many answers of a call came in requests of other calls."""
    call = replace(CALL, counts={**CALL.counts, "packed": packed}, notes={"questions": "3 in one request"})
    texts = dict(tables(Explained("operators", "fake", [], Figures(5, (call,)), None), ModelCosts({None: Costs()})))
    assert f"questions: 3 in one request{said}" in texts["calls of s0"].splitlines()


def test_nothing_tried() -> None:
    """A saving that was not tried says so; without notes there is no title for them."""
    told = Explained("operators", "fake", [], Figures(5, (CALL,)), None, [RuleSaving("rule", None)])
    texts = dict(tables(told, ModelCosts({None: Costs()})))
    assert texts["saved"].splitlines()[-1].split() == ["rule", "not", "tried"]
    assert "notes" not in texts
