"""Bound values become literals of the same type and value, and never SQL."""

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest
from datafusion import SessionContext

from flightllm.datafusion.contexts import plain_config
from flightllm.errors import LimitExceededError, SqlError
from flightllm.sql.parameters import bind, numbered, parameter_names
from flightllm.sql.parsed_text import ParsedText

WHEN = datetime(2024, 1, 2, 3, 4, 5, 6)  # noqa: DTZ001 - a timestamp without a zone is one of the cases
VALUES = [
    pa.array(["it's -- ? $1 \\ /*"]),
    pa.array([""]),
    *[pa.array([-5], kind) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())],
    *[pa.array([5], kind) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.int64())],
    pa.array([2**64 - 1], pa.uint64()),
    pa.array([-(2**63)], pa.int64()),
    *[pa.array([number]) for number in (1.5, -1e300, 1e-7, math.nan, math.inf, -math.inf, -0.0)],
    pa.array([2.5], pa.float32()),
    pa.array([True]),
    pa.array([None]),
    *[pa.array([None], kind) for kind in (pa.string(), pa.int32(), pa.timestamp("us", "UTC"), pa.list_(pa.string()))],
    pa.array([date(2024, 2, 3)]),
    pa.array([date(1, 2, 3)]),
    pa.array([date(2024, 2, 3)], pa.date64()),
    pa.array([time(1, 2, 3, 4)]),
    pa.array([time(1, 2, 3)], pa.time32("s")),
    pa.array([1], pa.time64("ns")),
    pa.array([WHEN]),
    pa.array([WHEN.replace(tzinfo=UTC)]),
    pa.array([WHEN.replace(microsecond=0)], pa.timestamp("s", "Europe/Berlin")),
    pa.array([123_456_789], pa.timestamp("ns")),
    pa.array([-1], pa.timestamp("ms")),
    pa.array([Decimal("-1.230")]),
    pa.array([Decimal("0.0000001")]),
    pa.array([b"\x00'b"]),
    pa.array([b""]),
    pa.array([["a", "b'", None]]),
    pa.array([[]], pa.list_(pa.int32())),
    pa.array([[1, 2]], pa.list_(pa.int8())),
    pa.array([[[1.5]]]),
    pa.array([Decimal("1.23")], pa.decimal32(5, 2)),
    pa.array([Decimal("1.234")], pa.decimal64(12, 3)),
    pa.array([Decimal(12300)], pa.decimal128(10, -2)),
    pa.array([Decimal("123456789012345678901234567890123456789012345.01")], pa.decimal256(50, 2)),
    pa.array([253_402_300_799], pa.timestamp("s")),
    pa.array([-62_135_596_800_000], pa.timestamp("ms", "UTC")),
    pa.array([0], pa.timestamp("us", "+05:30")),
    *[pa.array([-5], pa.duration(unit)) for unit in ("s", "ms", "us", "ns")],
    pa.array([(1, -2, 3)], pa.month_day_nano_interval()),
    pa.array([b"abc"], pa.binary(3)),
    pa.array([["a"]], pa.large_list(pa.string())),
    pa.array([[1, None]], pa.list_(pa.int32(), 2)),
    pa.array([{"a": 1, "b c": "it's"}], pa.struct([("a", pa.int32()), ("b c", pa.string())])),
    pa.array([[{"a": None}, None]], pa.list_(pa.struct([("a", pa.int32())]))),
    pa.array([[("a'", 1), ("b", None)]], pa.map_(pa.string(), pa.int32())),
    pa.array([[]], pa.map_(pa.string(), pa.int32())),
    *[
        pa.array([None], kind)
        for kind in (
            pa.decimal128(10, -2),
            pa.duration("s"),
            pa.month_day_nano_interval(),
            pa.binary(3),
            pa.struct([("a", pa.int32())]),
            pa.map_(pa.string(), pa.list_(pa.int8())),
            pa.time32("ms"),
        )
    ],
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{value.type}:{value[0]}")
def test_round_trip(value: pa.Array) -> None:
    """DataFusion reads back the type and the value that was bound; a time of the day has the unit of TIME."""
    sql = bind(ParsedText("SELECT ? AS x"), pa.record_batch([value], names=["0"])).sql
    column = SessionContext(plain_config()).sql(sql).collect()[0].column(0)
    assert column.type == (pa.time64("ns") if pa.types.is_time(value.type) else value.type)
    assert str(column[0].as_py()) == str(value[0].as_py())


_DAYS = 10_000_000
"""After the year 9999; as many days before 1970 are before the year 1."""


@pytest.mark.parametrize(
    "value",
    [
        *[pa.array([days], pa.int32()).cast(pa.date32()) for days in (_DAYS, -_DAYS, 2**31 - 1, -(2**31))],
        *[pa.array([days * 86_400_000]).view(pa.date64()) for days in (_DAYS, -_DAYS)],
        pa.ListArray.from_arrays([0, 1], pa.array([_DAYS], pa.int32()).cast(pa.date32())),
        pa.array([2**63 - 1]).view(pa.timestamp("us")),
        pa.StructArray.from_arrays([pa.array([1]), pa.array(["x"])], names=["a", "a"]),
    ],
)
def test_values_that_python_has_not(value: pa.Array) -> None:
    """Dates of any year, and structs that have a name twice, are bound as they are."""
    sql = bind(ParsedText("SELECT ? AS x"), pa.record_batch([value], names=["0"])).sql
    assert SessionContext(plain_config()).sql(sql).collect()[0].column(0).equals(value)


def test_values_that_cannot_be_written() -> None:
    """A value that neither SQL nor Python can hold is refused by its type, and named."""
    maps = pa.array([[[("a", 1)]]], pa.list_(pa.map_(pa.string(), pa.int64())))
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")]
    )
    for value in (maps, broken, pa.array([[1]], pa.list_view(pa.int64()))):
        with pytest.raises(SqlError, match=r"parameter 2 \('b'\): a value of type \w+.* cannot be bound"):
            bind(ParsedText("SELECT ?, ?"), pa.record_batch([pa.array([1]), value], names=["a", "b"]))


def test_encoded_texts_become_plain() -> None:
    """Large, view and dictionary strings are bound as text."""
    for array in (
        pa.array(["x"], pa.large_string()),
        pa.array(["x"], pa.string_view()),
        pa.array(["x"]).dictionary_encode(),
    ):
        assert bind(ParsedText("SELECT ?"), pa.record_batch([array], names=["0"])).sql == "SELECT 'x'"


def test_placeholders_in_text_and_comments_stay() -> None:
    """Only placeholders are replaced, in order; all other text stays as written."""
    row = pa.record_batch([["a"], [1]], names=["0", "1"])
    assert bind(ParsedText("SELECT '?', ? -- ?\n, \"?\" , ?"), row).sql == "SELECT '?', 'a' -- ?\n, \"?\" , 1"
    assert bind(ParsedText("SELECT $2, $1, $2"), row).sql == "SELECT 1, 'a', 1"


def test_numbered() -> None:
    """Question marks become numbered parameters; text that has numbers already stays."""
    assert numbered(ParsedText("SELECT ?,?, '?' -- ?")).sql == "SELECT $1,$2, '?' -- ?"
    assert numbered(ParsedText("SELECT $2,$1")).sql == "SELECT $2,$1"


def test_count() -> None:
    """`?` are counted, of `$n` the highest matters."""
    assert [len(parameter_names(ParsedText(sql))) for sql in ("SELECT 1", "SELECT ?, '?', ?", "SELECT $3, $1")] == [
        0,
        2,
        3,
    ]


@pytest.mark.parametrize(
    ("sql", "columns", "message"),
    [
        ("SELECT ?, ?", [[1]], "takes 2 parameters, but 1 are bound"),
        ("SELECT 1", [[1]], "takes 0 parameters, but 1"),
        ("SELECT ?", [[1, 2]], "one row"),
        ("SELECT ?, $1", [[1]], "mixes kinds of parameters"),
        ("SELECT $name, ?", [[1], [2]], "mixes kinds of parameters"),
        ("SELECT $0", [[1]], "unknown"),
        ("SELECT ?", [[{'a"': 1}]], r"parameter 1 \('p0'\).*struct with a quote"),
        ("SELECT ?", [["a\0b"]], "NUL"),
    ],
)
def test_refused(sql: str, columns: list[list[object]], message: str) -> None:
    """Wrong numbers and types without a literal are refused, the column named."""
    row = pa.record_batch(columns, names=[f"p{index}" for index in range(len(columns))])
    with pytest.raises(SqlError, match=message):
        bind(ParsedText(sql), row)


NESTED = [
    pa.array([list(range(10_001))]),
    pa.array([list(range(10_001))], pa.large_list(pa.int64())),
    pa.array([[[0]] * 5_001]),
    pa.array([[(str(i), i) for i in range(5_001)]], pa.map_(pa.string(), pa.int64())),
    pa.array([{"a": list(range(10_000)), "b": 1}]),
    pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([list(range(10_001))])]),
]


@pytest.mark.parametrize("value", NESTED, ids=lambda value: str(value.type)[:30])
def test_large_lists_are_refused(value: pa.Array, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that would be thousands of literals is refused before one is written, with what to do instead."""
    monkeypatch.setattr("flightllm.sql.parameters.literal", lambda _: pytest.fail("written"))
    with pytest.raises(LimitExceededError, match="upload them as a table"):
        bind(ParsedText("SELECT ?"), pa.record_batch([value], names=["0"]))


def test_values_named_often_count_each_time() -> None:
    """A value that stands in the text many times is as much text as many values."""
    row = pa.record_batch([pa.array([list(range(2_000))]), pa.array(["x" * (4 << 20)])], names=["0", "1"])
    assert bind(ParsedText("SELECT $1, $1, $1, $1, $1, $2"), row).sql.count("1999") == 5
    with pytest.raises(LimitExceededError, match="hold 12,000 values"):
        bind(ParsedText("SELECT $1, $1, $1, $1, $1, $1, $2"), row)
    with pytest.raises(LimitExceededError, match="characters of SQL text; the limit is 16,777,216"):
        bind(ParsedText("SELECT $1, $2, $2, $2, $2"), row)


def test_unbound_placeholders_are_refused() -> None:
    """A statement with placeholders cannot run without values."""
    with pytest.raises(SqlError, match="takes 1 parameters, but 0"):
        bind(ParsedText("SELECT ?"), None)
    assert bind(ParsedText("SELECT 1"), None).sql == "SELECT 1"


@pytest.mark.parametrize("sql", ["SELECT position('b' IN ?)", "SELECT POSITION ( 'b' in ? )", "SELECT [x FOR x IN ?]"])
def test_one_value_after_in(sql: str) -> None:
    """After the IN of `position` and of a comprehension, a parameter is one value."""
    assert "'abc'" in bind(ParsedText(sql), pa.record_batch({"0": ["abc"]})).sql


@pytest.mark.parametrize("sql", ["SELECT 1 IN ?", "SELECT f(1 IN ?)", "SELECT position('b' IN 'abc') IN ?"])
def test_no_list_after_in(sql: str) -> None:
    """After another IN, a parameter is no list."""
    with pytest.raises(SqlError, match="IN takes no list"):
        bind(ParsedText(sql), pa.record_batch({"0": ["abc"]}))
