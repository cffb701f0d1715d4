"""Times in the values of parameters, such as `500ms`."""

import re

from flightllm.postgres.failures import WireError

_MILLIS = {"": 1.0, "us": 0.001, "ms": 1.0, "s": 1e3, "min": 60e3, "h": 3600e3, "d": 86_400e3}
_TIME = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d|)\s*")


def millis_of(value: str) -> int:
    """Return the milliseconds of a time such as `5s` or `1min`, rounded; a number without a unit is in milliseconds.

    Raises:
        WireError: the text has another form.
    """
    found = _TIME.fullmatch(value)
    if found is None:
        raise WireError("22023", f"invalid value for parameter: {value[:40]!r}; write a time such as 5s or 500ms")
    return round(float(found[1]) * _MILLIS[found[2]])


def time_text(millis: int) -> str:
    """Return milliseconds as PostgreSQL shows them: a number of the largest unit that fits, such as `5s`, or `0`."""
    units = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1))
    return next((f"{millis // size}{unit}" for unit, size in units if millis and millis % size == 0), "0")
