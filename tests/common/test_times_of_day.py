"""Times of the day have one unit, at any depth."""

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from flightllm.common.times_of_day import TIME, in_unit_of_time
from flightllm.datafusion.contexts import scratch_context
from flightllm.sql.literals import literal

SECONDS, AT = pa.time32("s"), dt.time(1, 2, 3)
WITHOUT_LITERAL = pa.list_(pa.struct([("m", pa.map_(SECONDS, pa.int8()))]))
"""SQL has no literal for a map inside another value."""
KINDS = [
    (pa.time64("us"), TIME, AT),
    (pa.list_(pa.list_(SECONDS)), pa.list_(pa.list_(TIME)), [[AT], None]),
    (pa.large_list(SECONDS), pa.large_list(TIME), [AT]),
    (pa.list_(SECONDS, 2), pa.list_(TIME, 2), [AT, None]),
    (pa.struct([("a", SECONDS), ("b", pa.int8())]), pa.struct([("a", TIME), ("b", pa.int8())]), {"a": AT, "b": 1}),
    (pa.map_(pa.string(), SECONDS), pa.map_(pa.string(), TIME), [("k", AT), ("l", None)]),
    (
        WITHOUT_LITERAL,
        pa.list_(pa.struct([("m", pa.map_(TIME, pa.int8()))])),
        [{"m": [(AT, 1)]}],
    ),
    (pa.timestamp("s"), pa.timestamp("s"), dt.datetime(2020, 1, 1)),  # noqa: DTZ001
]


@pytest.mark.parametrize(("kind", "expected", "value"), KINDS, ids=[str(kind) for kind, _, _ in KINDS])
def test_unit(kind: pa.DataType, expected: pa.DataType, value: Any) -> None:
    """Times in lists, structs and maps have nanoseconds, other types stay, and values can be cast."""
    assert in_unit_of_time(kind) == expected
    assert in_unit_of_time(expected) == expected
    given = pa.array([value, None], kind)
    assert given.cast(expected).to_pylist() == given.to_pylist()


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, _, value in KINDS if kind != WITHOUT_LITERAL])
def test_literals(kind: pa.DataType, value: Any) -> None:
    """A literal has the unit too."""
    for one in pa.array([value, None], kind):
        found = scratch_context().sql(f"SELECT {literal(one)} AS c").to_arrow_table().column(0)
        assert in_unit_of_time(found.type) == found.type
        assert found.to_pylist() == [one.as_py()]


def test_what_fields_declare() -> None:
    """Names, NOT NULL and sorted keys stay."""
    kind = pa.map_(pa.string(), pa.field("value", SECONDS, nullable=False), keys_sorted=True)
    expected = pa.map_(pa.string(), pa.field("value", TIME, nullable=False), keys_sorted=True)
    assert in_unit_of_time(kind).equals(expected, check_metadata=True)
