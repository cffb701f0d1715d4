"""Texts of intervals."""

import pyarrow as pa
import pytest

from flightllm.common.interval_texts import interval_of, interval_text, period_text

_DAY, _HOUR = 86_400_000_000_000, 3_600_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.5 days", (0, 1, _DAY // 2)),
        ("1.5 months", (1, 15, 0)),
        ("1.5 years", (18, 0, 0)),
        ("-1.5 hours", (0, 0, -3 * _HOUR // 2)),
        (".5 weeks", (0, 3, _DAY // 2)),
        ("P1DT2H", (0, 1, 2 * _HOUR)),
        ("P1Y2M3W4DT5H6M7.5S", (14, 25, 5 * _HOUR + 367_500_000_000)),
        ("PT0.25S", (0, 0, 250_000_000)),
        ("2 days 03:00 ago", (0, -2, -3 * _HOUR)),
        ("@ 1-2 3 04:05", (14, 3, 4 * _HOUR + 300_000_000_000)),
        ("1y 2m 3 msec", (12, 0, 120_003_000_000)),
        ("1 year -2 days 04:00:00", (12, -2, 4 * _HOUR)),
    ],
)
def test_texts(text: str, expected: tuple[int, int, int]) -> None:
    """Parts of units, periods of ISO 8601 and times ago read as in PostgreSQL."""
    assert tuple(interval_of(text)) == expected


@pytest.mark.parametrize("text", ["P", "PT", "P1H", "1.5.5 days", "1 fortnight", "x ago"])
def test_wrong_texts(text: str) -> None:
    """Other texts are refused."""
    with pytest.raises(ValueError, match=r".*"):
        interval_of(text)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((0, 0, 0), "00:00:00"),
        ((14, -3, 4_500_000), "1 year 2 mons -3 days +00:00:04.5"),
        ((-1, 2, 3), "-1 mons +2 days 00:00:00.000003"),
        ((-13, 0, 1_000_000), "-1 years -1 mons +00:00:01"),
        ((1, 0, -3_600_000_000), "1 mon -01:00:00"),
        ((0, -1, 0), "-1 days"),
    ],
)
def test_written(parts: tuple[int, int, int], expected: str) -> None:
    """A part after a negative one has a sign, as PostgreSQL 15 writes it, and the text reads as the same interval."""
    assert interval_text(*parts) == expected
    for text in (expected, period_text(*parts)):
        assert interval_of(text) == pa.MonthDayNano([*parts[:2], parts[2] * 1000])
