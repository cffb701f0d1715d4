"""Types with other types for the values in them, at any depth of lists, structs and maps."""

from collections.abc import Callable

import pyarrow as pa


def with_leaves(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type in which `change` has replaced each type that holds no others."""

    def inner(part: pa.Field) -> pa.Field:
        return part.with_type(with_leaves(part.type, change))

    types = pa.types
    if types.is_struct(kind):
        return pa.struct([inner(part) for part in kind.fields])
    if types.is_map(kind):
        return pa.map_(inner(kind.key_field), inner(kind.item_field), keys_sorted=kind.keys_sorted)
    if types.is_fixed_size_list(kind):
        return pa.list_(inner(kind.value_field), kind.list_size)
    if types.is_large_list(kind):
        return pa.large_list(inner(kind.value_field))
    return pa.list_(inner(kind.value_field)) if types.is_list(kind) else change(kind)


def in_microseconds(kind: pa.DataType) -> pa.DataType:
    """Return a type whose times have microseconds in place of nanoseconds, as Python's have."""
    return with_leaves(kind, _coarse)


def _coarse(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if types.is_duration(kind) and kind.unit == "ns":
        return pa.duration("us")
    return pa.time64("us") if types.is_time64(kind) else kind
