"""Figures of predictions: averages, pairs with actual ones, and the document of them."""

from flightllm.llm.cost import Costs, ModelCosts, Work
from flightllm.plan.figures import COUNTED, CallFigures, Explained, Figures, RuleSaving, average, document

COSTS = ModelCosts({None: Costs()})


def call(text: str, calls: int, order: tuple[str, ...] = ("a",)) -> CallFigures:
    """Return a call site that makes so many calls of 100 tokens each, half of them cached."""
    counts = dict.fromkeys(COUNTED, 0) | {"calls": calls, "prompt_tokens": 100 * calls, "cached_tokens": 50 * calls}
    return CallFigures("s0", "f", text, counts, [(order, calls)])


def test_average() -> None:
    """The average of several predictions has the mean of each figure, and all orders of fields."""
    one = Figures(10, (call("x", 100), call("y", 10)), None, ("a note",))
    two = Figures(20, (call("x", 100, ("b",)), call("y", 30)))
    mean = average([one, two])
    assert (mean.rows, mean.calls_per_site, mean.notes) == (15, [100, 20], ("a note",))
    assert mean.work == Work(120, 12_000, 6_000, 0)
    assert sorted(mean.calls[0].orders) == [(("a",), 50), (("b",), 50)]
    assert average([one]) == one


def test_average_of_unlike() -> None:
    """A call that one prediction did not come to counts as nothing there."""
    assert average([Figures(1, (call("x", 10), call("y", 10))), Figures(1, (call("x", 10),))]).calls_per_site == [10, 5]


def test_pairs() -> None:
    """Actual figures stand beside those of the same call, in whatever order they began; each is used once."""
    predicted = Figures(1, (call("x", 1), call("y", 2), call("y", 3), call("z", 4)))
    actual = Figures(1, (call("y", 20), call("y", 30), call("x", 10)), 0.5)
    pairs = Explained("operators", "fake", [], predicted, actual).pairs()
    assert [met and met.counts["calls"] for _, met in pairs] == [10, 20, 30, None]


def test_document_of_savings() -> None:
    """What was saved is what it takes without, less what it takes; what was not tried is null."""
    savings = [RuleSaving("rule", {None: Work(30, 3_000, 0, 60)}), RuleSaving("late", None)]
    told = document(Explained("operators", "fake", [], Figures(1, (call("x", 10),)), None, savings), COSTS)
    saved, untried = told["savings"]
    assert (saved["saved"]["calls"], saved["saved"]["computed_tokens"], saved["saved"]["price"]) == (20, 2_500, None)
    assert untried == {"name": "late", "saved": None}
    assert told["operators"][0]["calls"][0]["predicted"]["prefix_hit_rate"] == 0.5
