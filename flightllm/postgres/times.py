"""Times in the values of parameters, such as `500ms`."""

import re

from flightllm.postgres.failures import WireError

_SECONDS = {"": 0.001, "us": 1e-6, "ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_TIME = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d|)\s*")


def seconds_of(value: str) -> float:
    """Return the seconds of a time such as `500ms`, `5s` or `1min`; a number without a unit is in milliseconds.

    Raises:
        WireError: the text has another form.
    """
    found = _TIME.fullmatch(value)
    if found is None:
        raise WireError("22023", f"invalid value for parameter: {value[:40]!r}; write a time such as 5s or 500ms")
    return float(found[1]) * _SECONDS[found[2]]


def time_text(seconds: float) -> str:
    """Return a time as PostgreSQL shows it: a number of the largest unit that fits, such as `5s`, or `0`."""
    millis = round(seconds * 1_000)
    units = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1))
    return next((f"{millis // size}{unit}" for unit, size in units if millis and millis % size == 0), "0")
