"""What is measured of a link, on a clock of the test's own."""

import pytest

from flightllm.kvcache.stream.meter import Meter


def send(meter: Meter, start: float, rate: float, seconds: float, part: int = 1_000) -> float:
    """Have parts come at a rate; return when the last one did."""
    number, now = meter.begin(start), start
    while now < start + seconds:
        now += part / rate
        meter.part(number, part, now)
    meter.end(number, now)
    return now


def test_nothing_known() -> None:
    """At first nothing is known, and after a single instant not much more."""
    meter = Meter()
    assert meter.throughput(0.0) is None
    assert meter.round_trip(0.0) == 0.0
    assert meter.decode_seconds("int8", 100, 0.0) == 0.0
    number = meter.begin(0.0)
    meter.part(number, 1_000, 1e-6)
    assert meter.throughput(1e-6) is None


def test_steady_link() -> None:
    """The rate at which parts come is found, and time in which nothing was asked for does not count."""
    meter = Meter()
    now = send(meter, 0.0, 1e6, 1.0)
    assert meter.throughput(now) == pytest.approx(1e6)
    now = send(meter, now + 10.0, 1e6, 0.1)
    assert meter.throughput(now + 5.0) == pytest.approx(1e6)


def test_link_that_changes() -> None:
    """After a few tenths of a second of it only the new rate counts."""
    meter = Meter()
    now = send(meter, 0.0, 1e7, 1.0)
    now = send(meter, now, 1e5, 0.3)
    assert meter.throughput(now) == pytest.approx(1e5)


def test_stalled_transfer() -> None:
    """While nothing comes the rate sinks, and what is known afterwards is that."""
    meter = Meter()
    now = send(meter, 0.0, 1e6, 1.0)
    number = meter.begin(now)
    rates = [meter.throughput(now + waited) or 0.0 for waited in (0.0, 0.2, 0.5, 2.0)]
    assert rates == sorted(rates, reverse=True)
    assert rates[2] < 0.5e6
    meter.end(number, now + 2.0)
    assert (meter.throughput(now + 2.0) or 0.0) < 0.2e6


def test_shared_link() -> None:
    """Transfers at the same time are measured as one link that all of them fill."""
    meter = Meter()
    numbers = [meter.begin(0.0) for _ in range(4)]
    assert meter.transfers == 4
    for step in range(1, 200):
        for number in numbers:
            meter.part(number, 1_000, step * 0.004)
    assert meter.throughput(199 * 0.004) == pytest.approx(1e6, rel=0.05)


def test_round_trips_are_no_slowness() -> None:
    """The time before a transfer's first part is not taken for a slow link, even where none was measured before."""
    meter = Meter()
    number, now = meter.begin(0.0), 0.5
    for _ in range(3):
        meter.part(number, 1_000, now)
        now += 1e-3
    assert meter.throughput(now - 1e-3) == pytest.approx(1e6)
    assert meter.round_trip(now) == pytest.approx(0.5)
    meter.asked(0.01, now)
    meter.asked(0.1, now)
    assert meter.round_trip(now) == pytest.approx(0.01)


def test_transfers_of_one_part() -> None:
    """Bitstreams that come all at once are measured too, by what they take beyond a round trip."""
    meter = Meter()
    meter.asked(0.5, 0.0)
    number = meter.begin(1.0)
    meter.part(number, 1_000, 2.5)
    assert meter.throughput(2.5) is None
    meter.end(number, 2.5)
    assert meter.throughput(2.5) == pytest.approx(1e3)


def test_nothing_ever_came() -> None:
    """Where a first transfer brings nothing for long, the link is known to be no faster than a part in that time."""
    meter = Meter()
    number = meter.begin(0.0)
    assert meter.throughput(0.1) is None
    assert meter.throughput(10.0) == pytest.approx(2**20 / 10.0)
    meter.end(number, 10.0)
    assert meter.throughput(10.0) == pytest.approx(2**20 / 10.0)
    meter.end(meter.begin(10.0), 20.0)
    assert meter.throughput(20.0) == pytest.approx(2**20 / 20.0, rel=0.5)


def test_what_is_old_is_forgotten() -> None:
    """After a while without a transfer nothing is known: a link that was slow once is tried again."""
    meter = Meter()
    meter.asked(0.5, 0.0)
    now = send(meter, 0.0, 1e4, 1.0)
    assert meter.throughput(now + 60.0) is None
    assert meter.round_trip(now + 60.0) == 0.0
    now = send(meter, now + 60.0, 1e6, 0.01)
    assert meter.throughput(now) == pytest.approx(1e6)


def test_decoding() -> None:
    """What decoding takes is learned for each codec, the latest counting most."""
    meter = Meter()
    meter.decoded("int8", 100, 9.0, 0.0)  # with the compilation of kernels
    assert meter.decode_seconds("int8", 50, 1.0) == pytest.approx(4.5)
    assert not meter.is_known("int8")
    assert meter.decode_seconds("int8", 50, 40.0) == 0.0
    meter.decoded("int8", 100, 1.0, 1.0)
    assert meter.is_known("int8")
    assert meter.decode_seconds("int8", 50, 1.0) == pytest.approx(0.5)
    meter.decoded("int8", 100, 3.0, 2.0)
    assert meter.decode_seconds("int8", 100, 3.0) == pytest.approx(2.0)
    assert meter.decode_seconds("int8", 100, 62.0) == pytest.approx(1.0)  # one slow moment does not count for ever
    assert meter.decode_seconds("raw", 100, 3.0) == 0.0
