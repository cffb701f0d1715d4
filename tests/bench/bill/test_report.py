"""The goals: which cases count, and which reach them."""

from typing import Any

from bench.bill.report import goals, shown


def cell(bill: float, *, possible: float = 1.0, error: float | None = 0.0, calls: int = 4) -> dict[str, Any]:
    """Return the figures of one query whose bill without a cache is 1."""
    run = {"predicted_calls": calls, "requests": 4}
    errors = {"cold_error": error, "warm_error": error}
    return {"none": 1.0, "before": 1.0, "bill": bill, "possible": possible, "cold": run, "warm": run, **errors}


def test_goals() -> None:
    """A goal names the queries that miss it; a saving is asked only where a shared start allows it."""
    found = {"p": {"dear": cell(1.1, error=-0.05), "cheap": cell(0.6, possible=0.5), "weak": cell(0.9, possible=0.5)}}
    small = {"p": {"near": {"bill": 1.04, "best": 1.0}, "far": {"bill": 1.06, "best": 1.0}}}
    reached = goals(found, small)
    assert [goal["cases"] for goal in reached.values()] == [3, 3, 2, 2, 3, 3, 3, 3]
    dear = ["p: dear"]
    assert [goal["missed"] for goal in reached.values()] == [dear, dear, ["p: weak"], ["p: far"], [], [], dear, dear]


def test_forecasts() -> None:
    """A query without a price misses the goal; one whose answers decide its calls does not count in the last goal."""
    found = {"p": {"unpriced": cell(1.0, error=None), "filter": cell(1.0, error=0.5, calls=3)}}
    *_, warm, known = goals(found, {"p": {}}).values()
    assert warm["missed"] == ["p: unpriced", "p: filter"]
    assert known["missed"] == ["p: unpriced"]
    table = shown("p", found["p"], {})
    assert "none" in table
    assert "+50.0%" in table
