"""Every type that a table may have comes back from disk as it was."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flightllm.catalog import QUERY_ONLY, Catalog
from flightllm.common.times_of_day import in_unit_of_time
from flightllm.config import LimitsConfig

STRUCT = pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.string())])
PLAIN = {
    "null": (pa.null(), [None, None]),
    "bool": (pa.bool_(), [True, None]),
    **{
        f"{kind}": (kind, [1, None])
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32())
    },
    "int64": (pa.int64(), [-(2**63), None]),
    "uint64": (pa.uint64(), [2**64 - 1, None]),
    "float16": (pa.float16(), [1.5, None]),
    "float32": (pa.float32(), [1.5, None]),
    "float64": (pa.float64(), [-0.0, None]),
    "decimal32": (pa.decimal32(5, 2), [Decimal("1.50"), None]),
    "decimal64": (pa.decimal64(12, 2), [Decimal("1.50"), None]),
    "decimal128": (pa.decimal128(38, 2), [Decimal("1.50"), None]),
    "decimal256": (pa.decimal256(60, 2), [Decimal("1.50"), None]),
    "negative scale": (pa.decimal128(10, -2), [Decimal(1500), None]),
    "date32": (pa.date32(), [dt.date(1600, 1, 2), None]),
    "date64": (pa.date64(), [dt.date(2020, 1, 2), None]),
    "time32 s": (pa.time32("s"), [5, None]),
    "time32 ms": (pa.time32("ms"), [5, None]),
    "time64 us": (pa.time64("us"), [5, None]),
    "time64 ns": (pa.time64("ns"), [5, None]),
    **{
        f"timestamp {unit} {zone}": (pa.timestamp(unit, zone), [-5_000_000_001, None])
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "+02:00", "Europe/Berlin")
    },
    **{f"duration {unit}": (pa.duration(unit), [-5, None]) for unit in ("s", "ms", "us", "ns")},
    "interval": (pa.month_day_nano_interval(), [pa.MonthDayNano([1, 2, 3]), None]),
    "text": (pa.string(), ["é\0", None]),
    "bytes": (pa.binary(), [b"\xff", None]),
    "bytes of one length": (pa.binary(3), [b"abc", None]),
}
NESTED = {
    "struct": (STRUCT, [{"x": 1, "y": None}, None]),
    "empty struct": (pa.struct([]), [{}, None]),
    "list": (pa.list_(pa.int64()), [[1, None], None]),
    "list without NULLs": (pa.list_(pa.field("item", pa.int64(), nullable=False)), [[1], []]),
    "list of structs without NULLs": (pa.list_(pa.field("item", STRUCT, nullable=False)), [[{"x": 1, "y": "q"}], None]),
    "list of another name": (pa.list_(pa.field("element", pa.int64())), [[1], None]),
    "list of lists": (pa.list_(pa.list_(pa.string())), [[["a"], None], None]),
    "list of structs": (pa.list_(STRUCT), [[{"x": 1, "y": "q"}, None], None]),
    "list of nothing": (pa.list_(pa.null()), [[None], None]),
    "list of durations": (pa.list_(pa.duration("ns")), [[5], None]),
    "list of intervals": (pa.list_(pa.month_day_nano_interval()), [[pa.MonthDayNano([1, 2, 3])], None]),
    "vector": (pa.list_(pa.float32(), 2), [[1.0, 2.0], None]),
    "vector of halves": (pa.list_(pa.float16(), 2), [[1.0, 2.0], None]),
    "vector of nothing": (pa.list_(pa.int32(), 0), [[], None]),
    "vector of texts": (pa.list_(pa.string(), 2), [["a", "b"], None]),
    "list of vectors": (pa.list_(pa.list_(pa.int32(), 2)), [[[1, 2]], None]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", None)], None]),
    "map without NULLs": (pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)), [[("a", 1)], None]),
    "map of times": (pa.map_(pa.string(), pa.time32("s")), [[("a", dt.time(1, 2)), ("b", None)], None]),
    "vector of times": (pa.list_(pa.time32("s"), 2), [[dt.time(1, 2), None], None]),
    "map of intervals": (pa.map_(pa.string(), pa.month_day_nano_interval()), [[("a", None)], None]),
    "map of empty structs": (pa.map_(pa.string(), pa.struct([])), [[("a", {})], None]),
    "struct of seconds": (pa.struct([("a", pa.timestamp("s"))]), [{"a": 5}, None]),
    "struct of dates": (pa.struct([("a", pa.date64())]), [{"a": dt.date(2020, 1, 1)}, None]),
}


@pytest.mark.parametrize(("kind", "values"), [*PLAIN.values(), *NESTED.values()], ids=[*PLAIN, *NESTED])
def test_round_trip(tmp_path: Path, kind: pa.DataType, values: list[Any]) -> None:
    """A column is read with its type, NULLs and values, appended to and merged, by a later run too."""
    given = pa.array(values, kind)
    sent = pa.schema([pa.field("c", kind), pa.field("n", pa.int64(), nullable=False)])
    batch = pa.RecordBatch.from_arrays([given, pa.array(range(len(given)))], schema=sent)
    first = Catalog(LimitsConfig(), None, tmp_path)
    first.ingest("t", sent, [batch])
    first.ingest("t", sent, [batch], "append")
    # A time of the day gets the unit of TIME.
    given = given.cast(in_unit_of_time(kind))
    schema = sent.set(0, sent.field(0).with_type(given.type))
    assert read(first).column("c").combine_chunks().equals(pa.concat_arrays([given, given]))
    first.close()
    second = Catalog(LimitsConfig(), None, tmp_path)
    table = read(second)
    assert table.schema.equals(schema)
    assert second.table("t").schema.equals(schema)
    assert table.column("c").combine_chunks().equals(pa.concat_arrays([given, given]))
    second.close()


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_nan(kind: pa.DataType) -> None:
    """NaN is greater than any number in SQL; no row that has it is skipped, nor forgotten by max."""
    catalog = Catalog(LimitsConfig())
    batch = pa.record_batch({"x": pa.array([1.0, float("nan"), None, -0.0], kind)})
    catalog.ingest("t", batch.schema, [batch])
    context = catalog.context()
    for condition, count in (("x > 5", 1), ("x >= 5", 1), ("x = 'NaN'", 1), ("x <> 1", 2), ("x < 5", 2), ("x = 0", 1)):
        assert context.sql(f"SELECT count(*) AS n FROM t WHERE {condition}").to_pydict() == {"n": [count]}
    assert str(context.sql("SELECT max(x) AS m FROM t").to_pydict()["m"]) == "[nan]"


def test_column_names() -> None:
    """Columns of any name, alike but for letter case too, are told apart."""
    catalog = Catalog(LimitsConfig())
    row = {"a.b": 1, "A": 2, "": 3, "Review/Text": "x", "é": 4, "a": 5, 'q"': 6, "a b": 7}
    batch = pa.RecordBatch.from_pylist([row])
    catalog.ingest("t", batch.schema, [batch])
    assert read(catalog).to_pylist() == [row]
    assert catalog.context().sql('SELECT "a.b" + "A" AS s FROM t WHERE "A" = 2').to_pydict() == {"s": [3]}


def read(catalog: Catalog) -> pa.Table:
    """Return the rows of the table `t`."""
    return catalog.context(parallel=False).sql_with_options("SELECT * FROM t", QUERY_ONLY).to_arrow_table()
