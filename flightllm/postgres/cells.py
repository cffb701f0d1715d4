"""Cells of a result in PostgreSQL's text or binary form: a column of values becomes a column of bytes.

Most types are converted by Arrow and numpy, a column at a time. A loop in Python over cells takes many times as long.
"""

import json
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flightllm.common.arrow_types import is_list
from flightllm.common.interval_texts import interval_text, period_text
from flightllm.postgres import lists
from flightllm.postgres.numerics import numeric_bytes
from flightllm.postgres.types import ARRAYS, INT2VECTOR, JSONB, OID, OIDVECTOR, oid_of, told_oid

_DAY = 86_400_000_000
"""The microseconds of a day."""
_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_EPOCH_DAYS, _DAY_MICROS = 10_957, 86_400_000_000
"""PostgreSQL counts from 2000-01-01, and Arrow from 1970-01-01."""
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The first day of year 1 and the last day of year 9999: Arrow writes other years with a sign or more digits."""
_ODD_YEAR = re.compile(r"(-?)(\d+)(-\d\d-\d\d.*)")


def plain(column: pa.Array) -> pa.Array:
    """Return a column without dictionary, run-end encoding, extension type and views."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return column if oid_of(kind) != oid_of(kind.storage_type) else plain(column.storage)
    if pa.types.is_dictionary(kind):
        return plain(column.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return plain(pc.run_end_decode(column))
    if "list_view<" in str(kind)[:16]:
        return pa.array(column.to_pylist(), pa.list_(kind.value_field))  # casts of Arrow lose the items
    if pa.types.is_fixed_size_list(kind):
        return column.cast(pa.list_(kind.value_field))
    return column


def texts(column: pa.Array, interval_style: str = "postgres") -> pa.Array:
    """Return the cells of a column in text form, as an array of bytes with the same NULLs.

    `interval_style` is a value of PostgreSQL's parameter `IntervalStyle`: `postgres` or `iso_8601`.
    """
    column = plain(column)
    kind = column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.binary())
    if is_list(kind):
        return _array(lists.texts(column, partial(texts, interval_style=interval_style), plain))
    if _is_interval(kind):
        return _interval_texts(column, period_text if interval_style == "iso_8601" else interval_text)
    if pa.types.is_integer(kind):
        return _bytes(column.cast(pa.string()))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
        return _bytes(_without_zeros(column.cast(pa.string())))
    for fits, encode in _TEXTS:
        if fits(kind):
            return encode(column)
    return _array(json_texts(column))


def binaries(column: pa.Array) -> pa.Array:
    """Return the cells of a column in binary form, as an array of bytes with the same NULLs."""
    column = plain(column)
    kind = column.type
    for fits, encode in _BINARIES:
        if fits(kind):
            return encode(column)
    return texts(column)  # texts and json have the same form


def catalog_values(field: pa.Field, column: pa.Array) -> pa.Array:
    """Return a column of a query about the catalog as its type in binary form needs it; other columns stay.

    A number of an object has 4 bytes. A vector such as `indkey` is an array, whose text form is `1 2`.
    """
    oid = told_oid(field)
    if oid == JSONB:  # the version of the form comes first
        return pc.binary_join_element_wise(b"\1", column.cast(pa.binary()), b"")
    if oid == OID:
        return column.view(pa.int32())
    if oid == ARRAYS[OID]:
        return column.cast(pa.list_(pa.int64())).cast(pa.list_(pa.int32()), safe=False)
    element = {INT2VECTOR: pa.int16(), OIDVECTOR: pa.int32()}.get(oid or 0)
    if element is None:
        return column
    vectors = [None if value is None else [int(one) for one in value.split()] for value in column.to_pylist()]
    return pa.array(vectors, pa.list_(element))


def _array(cells: Iterable[str | bytes | None]) -> pa.Array:
    return pa.array((cell.encode() if isinstance(cell, str) else cell for cell in cells), pa.binary())


def _bytes(column: pa.Array) -> pa.Array:
    return column.cast(pa.binary())


def _without_zeros(column: pa.Array) -> pa.Array:
    """Return texts without U+0000, which no client's text can hold."""
    return pc.replace_substring(column, "\0", "") if pc.any(pc.match_substring(column, "\0")).as_py() else column


def _like(cells: pa.Array, column: pa.Array) -> pa.Array:
    """Return cells with the NULLs of a column."""
    if not column.null_count:
        return cells
    return pc.if_else(column.is_valid(), cells, pa.scalar(None, cells.type))


def _fixed(values: Any, column: pa.Array) -> pa.Array:
    """Return the bytes of numpy's values as cells."""
    values = np.ascontiguousarray(values)
    offsets = np.arange(len(values) + 1, dtype=np.int32) * values.dtype.itemsize
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    return _like(pa.Array.from_buffers(pa.binary(), len(values), buffers), column)


def _numpy(column: pa.Array, kind: pa.DataType) -> Any:
    """Return values as numpy's, with 0 for NULL."""
    values = column if column.type == kind else column.cast(kind, safe=False)
    return pc.fill_null(values, pa.scalar(0, kind)).to_numpy(zero_copy_only=False)


# --- texts


def _bool_texts(column: pa.Array) -> pa.Array:
    return _bytes(pc.if_else(column, pa.scalar("t"), pa.scalar("f")))


def _float_texts(column: pa.Array) -> pa.Array:
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    written = column.cast(pa.string())
    if not pc.all(pc.is_finite(column)).as_py() and len(column):
        written = pc.if_else(pc.is_nan(column), pa.scalar("NaN"), written)
        written = pc.replace_substring_regex(written, r"^(-?)inf$", r"\1Infinity")
    return _bytes(written)


def _decimal_texts(column: pa.Array) -> pa.Array:
    written = column.cast(pa.string())
    if pc.any(pc.match_substring(written, "E")).as_py():
        return _array(None if value is None else f"{value:f}" for value in column.to_pylist())
    return _bytes(written)


def _bytea_texts(column: pa.Array) -> pa.Array:
    return _array(None if value is None else rb"\x" + value.hex().encode() for value in column.to_pylist())


def _date_texts(column: pa.Array) -> pa.Array:
    days = column.cast(pa.date32())
    return _of_years(days.cast(pa.string()), _numpy(days, pa.int32()))


def _timestamp_texts(column: pa.Array) -> pa.Array:
    micros = _micros(column)
    written = _like(pa.array(micros, pa.timestamp("us")), column).cast(pa.string())
    short = pc.replace_substring_regex(written, r"\.?0{1,6}$", "") if _whole(micros) else _trimmed(written)
    if column.type.tz is not None:
        short = pc.binary_join_element_wise(short, pa.scalar("+00"), "")
    return _of_years(short, micros // _DAY_MICROS)


def _whole(micros: Any) -> bool:
    return bool((micros % 1_000_000 == 0).all())


def _trimmed(written: pa.Array) -> pa.Array:
    """Return texts of times without zeros at the end of their fraction."""
    return pc.replace_substring_regex(pc.replace_substring_regex(written, r"(\.\d*?)0+$", r"\1"), r"\.$", "")


def _of_years(written: pa.Array, days: Any) -> pa.Array:
    """Return dates as bytes; years before 1 get PostgreSQL's `BC`."""
    if not len(days) or (days.min() >= _FIRST_DAY and days.max() <= _LAST_DAY):
        return _bytes(written)
    return _array(None if value is None else _odd_year(value) for value in written.to_pylist())


def _odd_year(value: str) -> str:
    found = _ODD_YEAR.fullmatch(value)
    if found is None:
        return value
    year = int(found[1] + found[2])
    return f"{year:04d}{found[3]}" if year > 0 else f"{1 - year:04d}{found[3]} BC"


def _time_texts(column: pa.Array) -> pa.Array:
    return _bytes(_trimmed(_like(pa.array(_micros(column), pa.time64("us")), column).cast(pa.string())))


def _interval_texts(column: pa.Array, written: Callable[[int, int, int], str]) -> pa.Array:
    months, days, micros = _interval_parts(column)
    valid = column.is_valid().to_pylist()
    parts = zip(months.tolist(), days.tolist(), micros.tolist(), valid, strict=True)
    return _array(written(*part) if ok else None for *part, ok in parts)


# --- json


def json_texts(column: pa.Array) -> list[str | None]:
    """Return values as JSON: structs and maps as objects, lists as arrays, and other types as their text form."""
    column = plain(column)
    kind = column.type
    valid = column.is_valid().to_pylist()
    if pa.types.is_struct(kind):
        names = [json.dumps(kind.field(index).name, ensure_ascii=False) for index in range(kind.num_fields)]
        parts = [json_texts(part) for part in column.flatten()]
        rows = zip(*parts, strict=True) if parts else ((),) * len(column)
        found = (_object(zip(names, row, strict=True)) for row in rows)
        return [one if ok else None for one, ok in zip(found, valid, strict=True)]
    if pa.types.is_map(kind):
        offsets = column.offsets.to_pylist()
        keys, items = _map_keys(column.keys), json_texts(column.items)
        ends = zip(offsets[:-1], offsets[1:], valid, strict=True)
        return [_object(zip(keys[begin:end], items[begin:end], strict=True)) if ok else None for begin, end, ok in ends]
    if is_list(kind):
        items, bounds = json_texts(lists.items(column)), lists.bounds(column)
        return [
            f"[{', '.join('null' if item is None else item for item in items[begin:end])}]" if ok else None
            for (begin, end), ok in zip(bounds, valid, strict=True)
        ]
    if pa.types.is_union(kind):
        return [
            None if value is None else json.dumps(value, default=str, ensure_ascii=False)
            for value in column.to_pylist()
        ]
    cells = [None if cell is None else cell.decode() for cell in texts(column).to_pylist()]
    if pa.types.is_boolean(kind):
        return [None if cell is None else "true" if cell == "t" else "false" for cell in cells]
    numbers = pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_floating(kind)
    return [
        cell if cell is None or (numbers and cell[-1].isdigit()) else json.dumps(cell, ensure_ascii=False)
        for cell in cells
    ]


def _object(pairs: Iterable[tuple[str, str | None]]) -> str:
    return "{" + ", ".join(f"{name}: {'null' if item is None else item}" for name, item in pairs) + "}"


def _map_keys(column: pa.Array) -> list[str]:
    return [json.dumps((cell or b"null").decode(), ensure_ascii=False) for cell in texts(column).to_pylist()]


# --- parts of times and intervals


def _micros(column: pa.Array) -> Any:
    """Return times as microseconds; smaller parts are cut off, because PostgreSQL has no smaller unit."""
    counts = _numpy(column.cast(pa.int32()) if pa.types.is_time32(column.type) else column, pa.int64())
    unit = column.type.unit
    if unit == "ns":
        return counts // 1_000
    factor = _MICROS[unit]
    most = (1 << 63) // factor - 1
    if factor > 1 and len(counts) and (counts.max() > most or counts.min() < -most):
        raise pa.ArrowInvalid("a time is outside the years that PostgreSQL's clients can read")
    return counts * factor


def _interval_parts(column: pa.Array) -> tuple[Any, Any, Any]:
    """Return months, days and microseconds of intervals, or of durations, whose days have 24 hours."""
    kind, zeros = column.type, np.zeros(len(column), np.int64)
    if pa.types.is_duration(kind):
        micros = _micros(column)
        days = np.sign(micros) * (np.abs(micros) // _DAY)
        return zeros, days, micros - days * _DAY
    data = column.buffers()[1]
    if str(kind) == "month_interval":
        return np.frombuffer(data, "<i4")[column.offset : column.offset + len(column)].astype(np.int64), zeros, zeros
    if str(kind) == "day_time_interval":
        parts = np.frombuffer(data, [("days", "<i4"), ("millis", "<i4")])[column.offset : column.offset + len(column)]
        return zeros, parts["days"].astype(np.int64), parts["millis"].astype(np.int64) * 1_000
    layout = [("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")]
    parts = np.frombuffer(data, layout)[column.offset : column.offset + len(column)]
    return parts["months"].astype(np.int64), parts["days"].astype(np.int64), parts["nanos"] // 1_000


# --- binary forms


def _bool_binaries(column: pa.Array) -> pa.Array:
    return _fixed(pc.fill_null(column, pa.scalar(value=False)).to_numpy(zero_copy_only=False).astype(np.uint8), column)


def _integers(width: str, kind: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    return lambda column: _fixed(_numpy(column, kind).astype(width), column)


def _date_binaries(column: pa.Array) -> pa.Array:
    return _fixed((_numpy(column.cast(pa.date32()), pa.int32()) - _EPOCH_DAYS).astype(">i4"), column)


def _timestamp_binaries(column: pa.Array) -> pa.Array:
    return _fixed((_micros(column) - _EPOCH_DAYS * _DAY_MICROS).astype(">i8"), column)


def _time_binaries(column: pa.Array) -> pa.Array:
    return _fixed(_micros(column).astype(">i8"), column)


def _interval_binaries(column: pa.Array) -> pa.Array:
    months, days, micros = _interval_parts(column)
    cells = np.empty(len(column), [("micros", ">i8"), ("days", ">i4"), ("months", ">i4")])
    cells["micros"], cells["days"], cells["months"] = micros, days, months
    return _fixed(cells, column)


def _numeric_binaries(column: pa.Array) -> pa.Array:
    return _array(None if value is None else numeric_bytes(Decimal(value)) for value in column.to_pylist())


def _uuid_texts(column: pa.Array) -> pa.Array:
    return _array(None if value is None else str(value) for value in column.to_pylist())


def _is_interval(kind: pa.DataType) -> bool:
    return bool(pa.types.is_duration(kind)) or str(kind) in (
        "month_day_nano_interval",
        "month_interval",
        "day_time_interval",
    )


def _is_bytes(kind: pa.DataType) -> bool:
    views = kind == pa.binary_view()
    return bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or views or pa.types.is_fixed_size_binary(kind)
    )


def _is_json(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.json"


def _is_uuid(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.uuid"


def _fits(*kinds: pa.DataType) -> Callable[[pa.DataType], bool]:
    return lambda kind: kind in kinds


_Encoders = tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]], ...]
_TEXTS: _Encoders = (
    (pa.types.is_boolean, _bool_texts),
    (pa.types.is_floating, _float_texts),
    (pa.types.is_decimal, _decimal_texts),
    (_is_bytes, _bytea_texts),
    (pa.types.is_date, _date_texts),
    (pa.types.is_timestamp, _timestamp_texts),
    (pa.types.is_time, _time_texts),
    (_is_uuid, _uuid_texts),
    (_is_json, lambda column: texts(column.storage)),
)
_BINARIES: _Encoders = (
    (pa.types.is_boolean, _bool_binaries),
    (_fits(pa.int8(), pa.int16(), pa.uint8()), _integers(">i2", pa.int16())),
    (_fits(pa.int32(), pa.uint16()), _integers(">i4", pa.int32())),
    (_fits(pa.int64(), pa.uint32()), _integers(">i8", pa.int64())),
    (_fits(pa.uint64()), _numeric_binaries),
    (pa.types.is_decimal, _numeric_binaries),
    (_fits(pa.float16(), pa.float32()), lambda column: _fixed(_numpy(column, pa.float32()).astype(">f4"), column)),
    (_fits(pa.float64()), lambda column: _fixed(_numpy(column, pa.float64()).astype(">f8"), column)),
    (_is_bytes, lambda column: column.cast(pa.binary())),
    (pa.types.is_date, _date_binaries),
    (pa.types.is_timestamp, _timestamp_binaries),
    (pa.types.is_time, _time_binaries),
    (_is_interval, _interval_binaries),
    (_is_uuid, lambda column: column.storage.cast(pa.binary())),
    (is_list, lambda column: _array(lists.binaries(column, binaries, plain))),
)
"""The first one that fits a type encodes it."""
