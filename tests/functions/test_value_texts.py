"""The texts of values are those of PostgreSQL."""

import pyarrow as pa
import pytest

from flightllm.functions.value_texts import array_text, double_text, interval_text, real_text, vendor_double_text

SECOND = 1_000_000_000


def test_doubles() -> None:
    """Very large and very small doubles have an exponent of two digits or more."""
    given = [2.0, -0.125, 1e14, 1e15, 1.25e100, 1e-4, 1.5e-5, 0.1, -0.0, 0.0, float("nan"), float("-inf"), None]
    wanted = ["2", "-0.125", "100000000000000", "1e+15", "1.25e+100", "0.0001", "1.5e-05", "0.1", "-0", "0"]
    assert double_text(pa.array(given)).to_pylist() == [*wanted, "NaN", "-Infinity", None]


def test_reals() -> None:
    """A real has fewer digits, and an exponent sooner."""
    found = real_text(pa.array([0.1, 999999, 1e6, 1234567, 1e10, None], pa.float32()))
    assert found.to_pylist() == ["0.1", "999999", "1e+06", "1.234567e+06", "1e+10", None]


@pytest.mark.parametrize(
    ("interval", "with_days", "wanted"),
    [
        ((1, 0, 0), False, "1 mon"),
        ((-14, 3, 0), False, "-1 years -2 mons +3 days"),
        ((0, 0, 0), False, "00:00:00"),
        ((12, 0, 0), False, "1 year"),
        ((0, -2, 3 * 3600 * SECOND), False, "-2 days +03:00:00"),
        ((0, 0, -5400 * SECOND), False, "-01:30:00"),
        ((0, 1, SECOND // 2), False, "1 day 00:00:00.5"),
        ((0, 0, 192 * 3600 * SECOND), False, "192:00:00"),
        ((0, 0, 192 * 3600 * SECOND), True, "8 days"),
        ((0, 0, -36 * 3600 * SECOND), True, "-1 days -12:00:00"),
    ],
)
def test_intervals(interval: tuple[int, int, int], with_days: bool, wanted: str) -> None:
    """A part after a negative one has a sign, and the time between two timestamps counts in days."""
    found = interval_text(pa.array([interval, None], pa.month_day_nano_interval()), pa.array([with_days] * 2))
    assert found.to_pylist() == [wanted, None]


def test_arrays() -> None:
    """Elements are in quotes where their text could be read in another way."""
    given = pa.array([["a", "b c", None, "", "null", 'x"\\', "{"], [], None], pa.list_(pa.string()))
    assert array_text(given).to_pylist() == [r'{a,"b c",NULL,"","null","x\"\\","{"}', "{}", None]


@pytest.mark.parametrize(
    ("value", "duckdb", "spark"),
    [
        (2.0, "2.0", "2.0"),
        (-1e10, "-10000000000.0", "-1.0E10"),
        (1.25e7, "12500000.0", "1.25E7"),
        (2.5e-5, "2.5e-05", "2.5E-5"),
        (0.001, "0.001", "0.001"),
        (0.0, "0.0", "0.0"),
        (float("inf"), "inf", "Infinity"),
        (float("nan"), "nan", "NaN"),
    ],
)
def test_vendor_double_text(value: float, duckdb: str, spark: str) -> None:
    """Doubles have the text of DuckDB, and that of Java in Spark; NULL stays NULL."""
    styles = pa.array(["duckdb", "spark", "spark"])
    found = vendor_double_text(pa.array([value, value, None]), styles)
    assert found.to_pylist() == [duckdb, spark, None]
