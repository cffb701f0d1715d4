"""Decimals keep all of their digits, and zones out of range are errors."""

import pyarrow as pa
import pytest

from flightllm.errors import SqlError
from flightllm.functions.java_texts import grouped, java_formats
from flightllm.functions.json_scalars import json_scalars
from flightllm.functions.jsonb import same_numbers
from flightllm.functions.percent_times import zone_of
from flightllm.functions.postgres_formats import numbers_by_format
from flightllm.functions.typed_texts import json_strings, typed_format

LONG = "123456789012345678901234567890.126"


def test_long_numbers_of_json_differ() -> None:
    """Two numbers that differ after 28 digits are not equal, and zeros at the end do not count."""
    one, other, same = same_numbers(pa.array([LONG, LONG[:-1] + "7", f"{LONG}00"])).to_pylist()
    assert one != other
    assert one == same


def test_grouped() -> None:
    """Spark's format_number writes all digits of a long number."""
    found = grouped(pa.array([LONG, "1e26"]), pa.array([2, 4]), pa.array(["Decimal128(38, 3)", "Float64"]))
    assert found.to_pylist() == [
        "123,456,789,012,345,678,901,234,567,890.13",
        "100,000,000,000,000,000,000,000,000.0000",
    ]


@pytest.mark.parametrize("digits", [1_001, 2**31 - 1, 2**63 - 1])
def test_grouped_has_a_limit(digits: int) -> None:
    """More digits than a text should have are an error at once, because they could take all memory."""
    assert grouped(pa.array(["1"]), pa.array([1_000]), pa.array(["Int64"])).to_pylist() == [f"1.{'0' * 1_000}"]
    with pytest.raises(SqlError, match=rf"at most 1,000 digits after the point, not {digits:,}: write a smaller"):
        grouped(pa.array(["1"]), pa.array([digits]), pa.array(["Int64"]))


def test_java_formats() -> None:
    """Spark's format_string writes all digits of a long number, also of a negative one."""
    texts, kinds = pa.array([["1e+30", f"-{LONG}"]]), pa.array([["Float64", "Decimal128(38, 3)"]])
    found = java_formats(pa.array(["%.2f %.3f"]), texts, kinds)
    assert found.to_pylist() == [f"1000000000000000000000000000000.00 -{LONG}"]


def test_numbers_by_format() -> None:
    """PostgreSQL's to_char rounds a long number as it is, and marks one that does not fit."""
    formats = pa.array([f"FM{'9' * 30}.99", "999.99"])
    found = numbers_by_format(pa.array([LONG, "1e30"]), formats)
    assert found.to_pylist() == ["123456789012345678901234567890.13", " ###.##"]


def test_typed_format() -> None:
    """BigQuery's FORMAT writes all digits of a long number."""
    found = typed_format(pa.array(["%.3f"]), pa.array([[f"-{LONG}"]]), pa.array([["Decimal128(38, 3)"]]))
    assert found.to_pylist() == [f"-{LONG}"]


def test_numbers_of_many_digits() -> None:
    """A number that Python itself refuses has a text and no 64 bits."""
    digits = "1" * 5000
    assert json_strings(pa.array([digits]), pa.array(["JSON"])).to_pylist() == [f'"{digits}"']
    found = json_scalars(pa.array([digits]), pa.array(["INT64"]), pa.array(["lax"]))
    assert found.to_pylist() == [None]


@pytest.mark.parametrize("zone", ["+25:00", "-24:00", "UTC+12:75"])
def test_zones_out_of_range(zone: str) -> None:
    """A zone outside of a day is an error with a zone to write."""
    with pytest.raises(SqlError, match=r"is out of range: write one up to '\+23:59'"):
        zone_of(zone)
