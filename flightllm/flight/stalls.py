"""How long a client may keep a place without taking or sending rows."""

from flightllm.common.admission import Place
from flightllm.flight.limits import FlightLimits


def given_up(seconds: float, place: Place, limits: FlightLimits) -> str | None:
    """Return since when a client should have moved that did not for so many seconds; None where it still may wait.

    That is `stalled_seconds`, or `crowded_seconds` where somebody who has fewer places waits for this one.
    """
    if not limits.stalled_seconds:
        return None
    if seconds > limits.stalled_seconds:
        return f"[recovery] stalled_seconds = {limits.stalled_seconds:g}"
    if limits.crowded_seconds and seconds > limits.crowded_seconds and place.wanted():
        return f"[recovery] crowded_seconds = {limits.crowded_seconds:g}, while others waited for a place"
    return None
