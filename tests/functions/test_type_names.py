"""The names of types are DuckDB's."""

import pyarrow as pa
import pytest

from flightllm.functions.type_names import type_names


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("Int64", "BIGINT"),
        ("Utf8View", "VARCHAR"),
        ("List(Int64)", "BIGINT[]"),
        ("List(non-null List(Utf8))", "VARCHAR[][]"),
        ("FixedSizeList(3 x Float32)", "FLOAT[3]"),
        ("Decimal128(10, 2)", "DECIMAL(10,2)"),
        ('Timestamp(ns, "UTC")', "TIMESTAMP WITH TIME ZONE"),
        ("Timestamp(µs)", "TIMESTAMP"),
        ("Time64(ns)", "TIME"),
        ("Interval(MonthDayNano)", "INTERVAL"),
        (
            'Struct("a": non-null Utf8, "B c": Decimal128(10, 2), "d": Struct("e": List(Int64), "f": Boolean))',
            'STRUCT(a VARCHAR, "B c" DECIMAL(10,2), d STRUCT(e BIGINT[], f BOOLEAN))',
        ),
        ("Dictionary(Int32, Utf8)", "VARCHAR"),
        (
            'Map("entries": non-null Struct("key": non-null Utf8, "value": Struct("x, y": Int64)), unsorted)',
            'MAP(VARCHAR, STRUCT("x, y" BIGINT))',
        ),
        ("Other(1)", "Other(1)"),
        (None, None),
    ],
)
def test_names(given: str | None, name: str | None) -> None:
    """Each name of DataFusion has its name in SQL."""
    assert type_names(pa.array([given], pa.string())).to_pylist() == [name]
