"""Times as texts and texts as times by a format with percent signs."""

from datetime import datetime

import pyarrow as pa
import pytest

from flightllm.errors import SqlError
from flightllm.functions.percent_times import read_time, written_time

TIME = datetime(2024, 3, 5, 14, 7, 9, 250_000)  # noqa: DTZ001 - a time of UTC


def _written(text: str, zone: str = "UTC") -> object:
    return written_time(pa.array([TIME], pa.timestamp("ns")), pa.array([text]), pa.array([zone]))[0].as_py()


def _read(text: str, written: str, *, safe: bool = False) -> object:
    return read_time(pa.array([text]), pa.array([written]), pa.array(["UTC"]), pa.array([safe]))[0].as_py()


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("%F %T %Z", "UTC", "2024-03-05 14:07:09 UTC"),
        ("%R %z %Z", "America/New_York", "09:07 -0500 UTC-5"),
        ("%E*S|%E2S|%E0S", "UTC", "09.25|09.25|09"),
        ("%e|%k|%l%P|%j|%Q", "+05:30", " 5|19| 7pm|065|1"),
        ("100%% %^b %!A", "UTC", "100% MAR tuesday"),
    ],
)
def test_writes(text: str, zone: str, expected: str) -> None:
    """A time is written with each letter, on the clocks of its zone."""
    assert _written(text, zone) == expected


@pytest.mark.parametrize(
    ("text", "written", "expected"),
    [
        ("2024-03-05T14:07:09.25+02:00", "%FT%H:%M:%E*S%Ez", datetime(2024, 3, 5, 12, 7, 9, 250_000)),  # noqa: DTZ001
        ("12:30 AM", "%I:%M %p", datetime(1970, 1, 1, 0, 30)),  # noqa: DTZ001
        ("065 24", "%j %y", datetime(2024, 3, 5)),  # noqa: DTZ001
        ("tuesday march  5 2024", "%A %B %e %Y", datetime(2024, 3, 5)),  # noqa: DTZ001
    ],
)
def test_reads(text: str, written: str, expected: datetime) -> None:
    """A text is read by its format; parts that it lacks are those of 1970-01-01."""
    assert _read(text, written) == expected


@pytest.mark.parametrize(
    ("text", "written"), [("2024", "%m"), ("x", "y"), ("13:00 pm", "%I:%M %p"), ("30 Feb", "%d %b")]
)
def test_safe_is_null(text: str, written: str) -> None:
    """A text without its format is an error, or NULL."""
    assert _read(text, written, safe=True) is None
    with pytest.raises(SqlError, match="does not have the format"):
        _read(text, written)


def test_unknown_letter() -> None:
    """An unknown letter names the known ones."""
    with pytest.raises(SqlError, match="%v in the format '%v' is unknown: write one of %Y"):
        _written("%v")
    with pytest.raises(SqlError, match="the time zone 'Mars' is unknown"):
        _written("%Y", "Mars")
