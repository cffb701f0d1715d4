"""Totals of model calls by call site."""

from flightllm.llm.engine import Completion
from flightllm.observe.model_calls import CALL_SECONDS, MOST_SITES, OTHER, ModelCalls
from flightllm.observe.query_record import CallRecord


def _called(text: str, *seconds: float, model: str | None = None) -> CallRecord:
    record = CallRecord("ai_gen", text, model=model)
    for one in seconds:
        record.sent(repair=False)
        record.received(Completion(0, "yes", prompt_tokens=10, completion_tokens=2), one)
    return record


def test_further_call_sites_are_counted_together() -> None:
    """The first sites keep their series; the sum over all sites is that of all calls."""
    calls = ModelCalls()
    for number in range(MOST_SITES + 50):
        calls.add([_called(f"ai_gen('{number}')", 0.1).figures()])
    calls.add([_called("ai_gen('0')", 0.1, 0.1).figures()])
    assert len(calls.sites) == MOST_SITES + 1
    assert sum(counts[0] for counts in calls.sites.values()) == MOST_SITES + 52
    assert calls.sites["default", "ai_gen", OTHER][0] == 50


def test_durations() -> None:
    """Each answer counts in the bucket of its seconds, of its own model."""
    calls = ModelCalls()
    calls.add([_called("a", 0.001, 0.3, 1_000.0).figures(), _called("b", 0.3, model="large").figures()])
    counts = dict(zip([*CALL_SECONDS, None], calls.durations["default"].counts, strict=True))
    assert {bound: count for bound, count in counts.items() if count} == {0.01: 1, 0.5: 1, None: 1}
    assert calls.durations["default"].seconds == 1_000.301
    assert sum(calls.durations["large"].counts) == 1


def test_a_copy_counts_alone() -> None:
    """What is added to a copy is not in the original."""
    calls = ModelCalls()
    calls.add([_called("a", 0.1).figures()])
    copy = calls.copy()
    copy.add([_called("a", 0.1).figures()])
    assert [sum(one.durations["default"].counts) for one in (calls, copy)] == [1, 2]
    assert [next(iter(one.sites.values()))[0] for one in (calls, copy)] == [1, 2]


def test_a_site_without_calls_has_no_series() -> None:
    """A call that no row needed adds nothing."""
    calls = ModelCalls()
    calls.add([_called("a").figures()])
    assert not calls.sites
    assert not calls.durations
