"""The time that a client can hold a place without taking or sending rows."""

from flightllm.common.admission import AdmissionSlot
from flightllm.flight.limits import FlightLimits


def given_up(seconds: float, place: AdmissionSlot, limits: FlightLimits) -> str | None:
    """Return the limit that a client exceeds after `seconds` without progress, as text for an error, or None.

    The limit is `stalled_seconds`, or `crowded_seconds` where a user with fewer places waits for this place.
    """
    if not limits.stalled_seconds:
        return None
    if seconds > limits.stalled_seconds:
        return f"[recovery] stalled_seconds = {limits.stalled_seconds:g}"
    if limits.crowded_seconds and seconds > limits.crowded_seconds and place.wanted():
        return f"[recovery] crowded_seconds = {limits.crowded_seconds:g}, while others waited for a place"
    return None
