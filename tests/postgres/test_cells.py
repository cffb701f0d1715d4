"""Cells in text and binary form."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from flightllm.postgres.cells import binaries, texts
from flightllm.postgres.numerics import decimal_of, numeric_bytes
from flightllm.postgres.rows import data_rows

_TEXTS = {
    "unsigned": (pa.array([2**64 - 1, None], pa.uint64()), ["18446744073709551615", None]),
    "bool": (pa.array([True, None]), ["t", None]),
    "float": (pa.array([1.0, -0.5, float("nan"), float("-inf"), 1e20]), ["1", "-0.5", "NaN", "-Infinity", "1e+20"]),
    "half": (pa.array([1.5], pa.float16()), ["1.5"]),
    "decimal": (pa.array([Decimal("0.0000001")], pa.decimal128(38, 7)), ["0.0000001"]),
    "wide decimal": (pa.array([Decimal("1.5")], pa.decimal256(50, 2)), ["1.50"]),
    "bytes": (pa.array([b"ab", None], pa.large_binary()), ["\\x6162", None]),
    "date": (pa.array([dt.date(2024, 1, 2)], pa.date64()), ["2024-01-02"]),
    "years": (pa.array([-800_000, 3_000_000], pa.date32()), ["0222-09-04 BC", "10183-09-21"]),
    "timestamp": (
        pa.array([0, 1_500_000, None], pa.timestamp("us")),
        ["1970-01-01 00:00:00", "1970-01-01 00:00:01.5", None],
    ),
    "zone": (pa.array([1_500_000_001], pa.timestamp("ns", "Europe/Berlin")), ["1970-01-01 00:00:01.5+00"]),
    "whole": (pa.array([10], pa.timestamp("s")), ["1970-01-01 00:00:10"]),
    "time": (pa.array([1_500_000_000], pa.time64("ns")), ["00:00:01.5"]),
    "duration": (pa.array([90_061_000, None], pa.duration("ms")), ["1 day 01:01:01", None]),
    "interval": (pa.array([pa.MonthDayNano([14, -3, 4_500_000_000])]), ["1 year 2 mons -3 days +00:00:04.5"]),
    "list": (pa.array([["a", "", "null", 'x"y\\', None, "b c"], []]), ['{a,"","null","x\\"y\\\\",NULL,"b c"}', "{}"]),
    "lists": (pa.array([[[1, 2], [3, 4]], None]), ["{{1,2},{3,4}}", None]),
    "view": (pa.array([[1], [2, 3]], pa.list_view(pa.int32())), ["{1}", "{2,3}"]),
    "fixed": (pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)), ["{1,2}"]),
    "struct": (pa.array([{"a": 1, "b": ['x"', None], "c": True}]), ['{"a": 1, "b": ["x\\"", null], "c": true}']),
    "map": (pa.array([[("k", 1.5)], None], pa.map_(pa.string(), pa.float64())), ['{"k": 1.5}', None]),
    "dictionary": (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
    "views of text": (pa.array(["a", None], pa.string_view()), ["a", None]),
    "null": (pa.nulls(2), [None, None]),
    "uuid": (pa.array([b"\1" * 16], pa.uuid()), ["01010101-0101-0101-0101-010101010101"]),
    "zero in text": (pa.array(["a\0b"]), ["ab"]),
}


@pytest.mark.parametrize("name", _TEXTS)
def test_texts(name: str) -> None:
    """Each Arrow type has PostgreSQL's text, also in a slice; its binary form has the same NULLs."""
    column, expected = _TEXTS[name]
    assert [None if cell is None else cell.decode() for cell in texts(column).to_pylist()] == expected
    assert [cell is None for cell in binaries(column).to_pylist()] == [cell is None for cell in expected]
    rest = [None if cell is None else cell.decode() for cell in texts(column.slice(1)).to_pylist()]
    assert rest == expected[1:]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((14, -3, 14_706_700_000_000), "P1Y2M-3DT4H5M6.7S"),
        ((0, 0, 0), "PT0S"),
        ((-1, 0, -1_000_000_000), "P-1MT-1S"),
        ((0, 2, 0), "P2D"),
    ],
)
def test_periods(parts: tuple[int, int, int], expected: str) -> None:
    """Intervals are periods of ISO 8601 where the client asks for them, in lists too; PostgreSQL 15 writes the same."""
    interval = pa.MonthDayNano(parts)
    assert texts(pa.array([interval, None]), "iso_8601").to_pylist() == [expected.encode(), None]
    assert texts(pa.array([[interval, None]]), "iso_8601").to_pylist() == [f"{{{expected},NULL}}".encode()]


@pytest.mark.parametrize(
    "text", ["0", "1", "-1.50", "12345.6789", "0.0001", "100000000", "-0.10", "1E+5", "99999.0001", "-0.001000"]
)
def test_numerics(text: str) -> None:
    """The binary form of a decimal keeps its digits."""
    assert decimal_of(numeric_bytes(Decimal(text))) == Decimal(text)


def test_rows() -> None:
    """A row is one message: its length, the number of columns, and each value with its length."""
    batch = pa.record_batch({"a": [1, None], "b": ["x", "yy"]})
    assert data_rows(batch, [0, 0]) == b"D\0\0\0\x10\0\2\0\0\0\x011\0\0\0\1xD\0\0\0\x10\0\2\xff\xff\xff\xff\0\0\0\2yy"
