"""Values have the texts that DuckDB writes."""

import pyarrow as pa
import pytest

from flightllm.errors import SqlError
from flightllm.functions.duckdb_texts import (
    duckdb_interval,
    duckdb_list,
    duckdb_lists,
    duckdb_text,
    simple_lower,
    simple_upper,
)

INTERVAL = pa.month_day_nano_interval()
HOUR = 3_600_000_000_000


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (["1", None], "Utf8", "[1, NULL]"),
        ([], "Utf8", "[]"),
        (["it's", "a,b", "", "a b", "null"], "Utf8", "['it\\'s', 'a,b', '', a b, 'null']"),
        ([" a", "a:b", "{a}", "a\\b", "x;y"], "Utf8", "[' a', 'a:b', '{a}', 'a\\\\b', x;y]"),
        (["2.5", "1e16"], "Float64", "[2.5, 1e+16]"),
        (["2024-01-05T08:00:00.500"], "Timestamp", "['2024-01-05 08:00:00.5']"),
        (["08:00:00.500000"], "Time64", "['08:00:00.5']"),
    ],
)
def test_list(values: list[str | None], kind: str, expected: str) -> None:
    """An element has quotes if its text has signs of a list, and NULL is a word."""
    given = pa.array([values, None], pa.list_(pa.string()))
    assert duckdb_list(given, pa.array([kind, kind])).to_pylist() == [expected, None]


def test_lists() -> None:
    """A list in a list has no quotes of its own."""
    given = pa.array([[["1", None], None, []]], pa.list_(pa.list_(pa.string())))
    assert duckdb_lists(given, pa.array(["Utf8"])).to_pylist() == ["[[1, NULL], NULL, []]"]


@pytest.mark.parametrize("kind", ["Struct", "Duration"])
def test_refused_elements(kind: str) -> None:
    """A list of structs or durations names what to write."""
    with pytest.raises(SqlError, match="write"):
        duckdb_list(pa.array([["x"]], pa.list_(pa.string())), pa.array([kind]))


@pytest.mark.parametrize(
    ("months", "days", "nanos", "expected"),
    [
        (14, 0, 0, "1 year 2 months"),
        (1, -1, 0, "1 month -1 day"),
        (-25, 0, 0, "-2 years -1 month"),
        (0, 0, 36 * HOUR, "36:00:00"),
        (0, 1, -HOUR, "1 day -01:00:00"),
        (0, 0, 1_500_000_000, "00:00:01.5"),
        (0, 0, 0, "00:00:00"),
    ],
)
def test_interval(months: int, days: int, nanos: int, expected: str) -> None:
    """The parts of an interval are whole words, and its time is a clock."""
    given = pa.array([(months, days, nanos), None], INTERVAL)
    assert duckdb_interval(given, pa.array([False, False])).to_pylist() == [expected, None]


def test_time_between() -> None:
    """A length of time has days of 24 hours."""
    given = pa.array([(0, 0, 25 * HOUR)], INTERVAL)
    assert duckdb_interval(given, pa.array([True])).to_pylist() == ["1 day 01:00:00"]


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("1e16", "Float64", "1e+16"),
        ("0.1", "Float32", "0.1"),
        ("10000000000", "Float32", "10000000000.0"),
        ("0.00001", "Float32", "1e-05"),
        ("2024-01-05T08:00:00Z", "Timestamp(ns, UTC)", "2024-01-05 08:00:00+00"),
        ("x", "Utf8", "x"),
    ],
)
def test_text(text: str, kind: str, expected: str) -> None:
    """A value of a type that only the plan knows has DuckDB's text."""
    assert duckdb_text(pa.array([text, None]), pa.array([kind, kind])).to_pylist() == [expected, None]


def test_refused_text() -> None:
    """A list that only the plan knows names what to write."""
    with pytest.raises(SqlError, match="write array_to_string"):
        duckdb_text(pa.array(["[1]"]), pa.array(["List(Int64)"]))


def test_cases() -> None:
    """Each character stays one character."""
    assert simple_upper(pa.array(["straße", "ﬁ", None])).to_pylist() == ["STRAẞE", "ﬁ", None]
    assert simple_lower(pa.array(["İÀ", None])).to_pylist() == ["ià", None]
