"""Links in arithmetic: bytes pass as fast as the trace says, and not faster."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.traces import GIGABIT, UNLIMITED, Bucket, Trace, random_trace

traces = st.builds(Trace, st.lists(st.floats(0.01, 10.0), min_size=1, max_size=5).map(tuple), st.floats(0.01, 2.0))


@given(traces, st.floats(0.0, 10.0), st.floats(1.0, 1e9), st.floats(1.0, 1e9))
def test_parts_take_as_long_as_the_whole(trace: Trace, start: float, one: float, other: float) -> None:
    """What passes in two parts, one after the other, has passed when it would have as a whole."""
    whole = trace.arrival(start, one + other)
    assert trace.arrival(trace.arrival(start, one), other) == pytest.approx(whole, abs=1e-6, rel=1e-6)
    least, most = (one + other) / max(trace.gigabits) / GIGABIT, (one + other) / min(trace.gigabits) / GIGABIT
    assert least * 0.999 - 1e-6 <= whole - start <= most * 1.001 + 1e-6


def test_bandwidth_that_changes() -> None:
    """Each segment lets through its own, and the trace begins again after the last."""
    trace = Trace((1.0, 0.5), 1.0)
    assert trace.arrival(0.0, 1.25 * GIGABIT) == pytest.approx(1.5)
    assert trace.arrival(0.5, 1.5 * GIGABIT) == pytest.approx(2.5)
    assert trace.arrival(0.0, 15.0 * GIGABIT) == pytest.approx(20.0)
    assert trace.rate(1.5) == trace.rate(3.5) == 0.5 * GIGABIT


def test_without_a_limit() -> None:
    """What has no limit takes no time."""
    assert Trace((UNLIMITED,)).arrival(3.0, 1e12) == 3.0


def test_bucket() -> None:
    """Bytes pass after those before them; what nobody used is lost but for a moment of it."""
    bucket = Bucket(Trace((1.0,)))
    assert bucket.passed(int(GIGABIT), 0.0) == pytest.approx(1.0)
    assert bucket.passed(int(GIGABIT), 0.5) == pytest.approx(2.0)
    assert bucket.passed(int(GIGABIT), 10.0) == pytest.approx(11.0, abs=0.01)
    assert bucket.passed(int(GIGABIT), 11.01, waited=True) == pytest.approx(12.0, abs=0.01)
    bucket.follow(Trace((0.1,)), 12.0)
    assert bucket.passed(int(GIGABIT), 0.0) == pytest.approx(10.0, abs=0.05)


def test_random_traces() -> None:
    """A seed always gives the same trace, within the limits."""
    trace = random_trace(3)
    assert trace == random_trace(3) != random_trace(4)
    assert all(0.1 <= rate <= 10.0 for rate in trace.gigabits)
    assert max(random_trace(3, 2.0).gigabits) <= 2.0


@pytest.mark.parametrize("gigabits", [(), (0.0,), (1.0, -1.0)], ids=["nothing", "none", "less"])
def test_trace_that_makes_no_sense(gigabits: tuple[float, ...]) -> None:
    """A trace by which something would never arrive is refused."""
    with pytest.raises(ValueError, match="above 0"):
        Trace(gigabits)
