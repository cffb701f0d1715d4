"""Tables whose columns are of all types that a server keeps."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal
from typing import Any

import pyarrow as pa


def kinds() -> pa.Table:
    """Return a row of values, one without any, and one of extremes, in columns of types that Parquet holds."""
    zoned = datetime(2024, 2, 29, 12, 30, 15, 123456, UTC)
    plain = zoned.replace(tzinfo=None)
    columns: Mapping[str, tuple[pa.DataType, list[Any]]] = {
        "flag": (pa.bool_(), [True, False]),
        "i8": (pa.int8(), [-128, 127]),
        "i16": (pa.int16(), [-32768, 32767]),
        "i32": (pa.int32(), [-(2**31), 2**31 - 1]),
        "i64": (pa.int64(), [-(2**63), 2**63 - 1]),
        "u8": (pa.uint8(), [0, 255]),
        "u16": (pa.uint16(), [0, 65535]),
        "u32": (pa.uint32(), [0, 2**32 - 1]),
        "u64": (pa.uint64(), [0, 2**64 - 1]),
        "f16": (pa.float16(), [1.5, float("nan")]),
        "f32": (pa.float32(), [0.1, float("-inf")]),
        "f64": (pa.float64(), [0.1, float("nan")]),
        "d128": (pa.decimal128(38, 10), [Decimal("-1.5"), Decimal("9999999999.0000000001")]),
        "d256": (pa.decimal256(60, 5), [Decimal("1e50"), Decimal("-0.00001")]),
        "text": (pa.string(), ["", "ä ß 漢 🙂 \0 '\""]),
        "long_text": (pa.large_string(), ["x", "y" * 300]),
        "text_view": (pa.string_view(), ["short", "longer than twelve bytes"]),
        "bytes": (pa.binary(), [b"", b"\x00\xff"]),
        "long_bytes": (pa.large_binary(), [b"a", b"\x80"]),
        "bytes_view": (pa.binary_view(), [b"a", b"\x80" * 20]),
        "four_bytes": (pa.binary(4), [b"abcd", b"\x00\x01\x02\x03"]),
        "day": (pa.date32(), [date(1, 1, 1), date(2024, 2, 29)]),
        "day64": (pa.date64(), [date(1970, 1, 2), date(2024, 2, 29)]),
        "t_s": (pa.time32("s"), [clock(0, 0, 1), clock(23, 59, 59)]),
        "t_ms": (pa.time32("ms"), [clock(0, 0, 1, 1000), clock(23, 59, 59, 999000)]),
        "t_us": (pa.time64("us"), [clock(0, 0, 1, 1), clock(23, 59, 59, 999999)]),
        "t_ns": (pa.time64("ns"), [1, 86_399_999_999_999]),
        "ts_s": (pa.timestamp("s"), [plain.replace(microsecond=0), datetime(1900, 1, 1)]),  # noqa: DTZ001
        "ts_ms": (pa.timestamp("ms"), [plain.replace(microsecond=123000), datetime(1900, 1, 1)]),  # noqa: DTZ001
        "ts_us": (pa.timestamp("us"), [plain, datetime(1, 1, 1)]),  # noqa: DTZ001
        "ts_ns": (pa.timestamp("ns"), [1_700_000_000_123_456_789, -1]),
        "ts_utc": (pa.timestamp("us", "UTC"), [zoned, zoned - timedelta(days=1)]),
        "ts_zone": (pa.timestamp("ms", "Europe/Berlin"), [zoned.replace(microsecond=0), zoned.replace(microsecond=0)]),
        "took": (pa.duration("us"), [timedelta(days=-1), timedelta(microseconds=5)]),
        "list": (pa.list_(pa.int32()), [[1, None, 3], []]),
        "long_list": (pa.large_list(pa.string()), [["a", None], []]),
        "pair": (pa.list_(pa.float32(), 2), [[0.5, 1.5], [0.0, -1.0]]),
        "record": (pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]), [{"a": 1, "b": ["x"]}, {"a": None}]),
        "map": (pa.map_(pa.string(), pa.int64()), [[("k", 1), ("l", None)], []]),
        "coded": (pa.dictionary(pa.int32(), pa.string()), ["red", "green"]),
    }
    arrays = [pa.array([values[0], None, values[1]], kind) for kind, values in columns.values()]
    return pa.table([pa.array([1, 2, 3], pa.int64()), *arrays], ["id", *columns])


def odd() -> pa.Table:
    """Return rows of types that Parquet cannot hold, which the server keeps in Arrow's own format."""
    part = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    columns: Mapping[str, tuple[pa.DataType, list[Any]]] = {
        "span": (pa.month_day_nano_interval(), [(1, -2, 3), (0, 0, 10**9)]),
        "round": (pa.decimal128(5, -2), [Decimal(1200), Decimal(-99900)]),
        "strict": (part, [{"a": 1}, {"a": -1}]),
        "words": (pa.list_(pa.string()), [["x", None], []]),
    }
    arrays = [pa.array([values[0], None, values[1]], kind) for kind, values in columns.values()]
    return pa.table([pa.array([1, 2, 3], pa.int64()), *arrays], ["id", *columns])
