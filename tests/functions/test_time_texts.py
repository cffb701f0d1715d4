"""Texts of times have a form that DataFusion reads as PostgreSQL reads them."""

import pyarrow as pa
import pytest

from flightllm.errors import SqlError
from flightllm.functions.time_texts import plain_time, plain_timestamp, time_text, timestamp_text, zoned_text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("083000", "08:30:00"),
        ("0830", "08:30"),
        ("8:30", "8:30"),
        ("08:00:00.1234567", "08:00:00.123457"),
        ("23:59:59.9999999", "24:00:00"),
        ("x:00:00.1234567", "x:00:00.1234567"),
    ],
)
def test_times(text: str, wanted: str) -> None:
    """Digits become hours, minutes and seconds, and a fraction is rounded to microseconds."""
    assert plain_time(text) == wanted


def test_no_time() -> None:
    """Another count of digits is an error that shows a time."""
    with pytest.raises(SqlError, match="'08' must have the form of a time"):
        plain_time("08")


@pytest.mark.parametrize(
    ("text", "digits", "wanted"),
    [
        ("2024-01-01 08:00+05", 9, "2024-01-01 08:00"),
        ("2024-01-01T08:00:00.5 -03:30", 9, "2024-01-01T08:00:00.5"),
        ("2024-01-01", 9, "2024-01-01"),
        ("2024-12-31 23:59:59.5", 0, "2025-01-01 00:00:00.000000"),
        ("2024-01-05 08:00:00.1239", 3, "2024-01-05 08:00:00.124000"),
    ],
)
def test_timestamps(text: str, digits: int, wanted: str) -> None:
    """A zone is left out, and a fraction is rounded up at its half."""
    assert plain_timestamp(text, digits) == wanted


def test_columns() -> None:
    """Only odd texts change, and a zoned timestamp keeps its zone."""
    texts = pa.array(["2024-01-01 08:00:00", "2024-01-01 08:00:00.1234567+05", None])
    assert timestamp_text(texts).to_pylist() == [texts[0].as_py(), "2024-01-01 08:00:00.123457", None]
    assert zoned_text(texts).to_pylist() == [texts[0].as_py(), "2024-01-01 08:00:00.123457+05", None]
    assert time_text(pa.array(["0830", "08:30"])).to_pylist() == ["08:30", "08:30"]
    assert time_text(texts.slice(0, 1)).to_pylist() == [texts[0].as_py()]
