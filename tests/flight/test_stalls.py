"""Clients that move no rows keep their places only while nobody else wants them."""

import pytest

from flightllm.common.admission import AdmissionControl, AdmissionSlot
from flightllm.common.fair_queue import Requester
from flightllm.flight.limits import FlightLimits
from flightllm.flight.stalls import given_up


class _Place(AdmissionSlot):
    """A place that somebody wants, or nobody."""

    def __init__(self, *, wanted: bool) -> None:
        super().__init__(
            AdmissionControl(1, queue=1, wait_seconds=1.0, poll_seconds=1.0), Requester("a", "1"), lambda: None, 0.0
        )
        self._wanted = wanted

    def wanted(self) -> bool:
        """Return what was said."""
        return self._wanted


@pytest.mark.parametrize(
    ("seconds", "wanted", "stalled_seconds", "since"),
    [
        (29.0, True, 600.0, None),
        (31.0, False, 600.0, None),
        (31.0, True, 600.0, "crowded_seconds = 30, while others waited"),
        (601.0, False, 600.0, "stalled_seconds = 600"),
        (5.0, False, 4.0, "stalled_seconds = 4"),
        (9_999.0, True, 0.0, None),
    ],
)
def test_how_long(seconds: float, wanted: bool, stalled_seconds: float, since: str | None) -> None:
    """Half a minute is enough where others wait; 0 is never, whoever waits."""
    reason = given_up(seconds, _Place(wanted=wanted), FlightLimits(stalled_seconds=stalled_seconds))
    assert reason == since or (since is not None and since in (reason or ""))
