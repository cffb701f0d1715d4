"""The one unit of times of the day. DataFusion compares no times of two units."""

from typing import Final

import pyarrow as pa

TIME: Final = pa.time64("ns")
"""The type of TIME."""


def in_unit_of_time(kind: pa.DataType) -> pa.DataType:
    """Return a type with the unit of TIME, nanoseconds, for times of the day.

    It changes times at any depth in lists, structs and maps, and returns other types unchanged.
    """
    types = pa.types
    if types.is_time(kind):
        return TIME
    if types.is_struct(kind):
        return pa.struct([_in_unit(part) for part in kind.fields])
    if types.is_map(kind):
        return pa.map_(_in_unit(kind.key_field), _in_unit(kind.item_field), keys_sorted=kind.keys_sorted)
    if types.is_fixed_size_list(kind):
        return pa.list_(_in_unit(kind.value_field), kind.list_size)
    if types.is_large_list(kind):
        return pa.large_list(_in_unit(kind.value_field))
    return pa.list_(_in_unit(kind.value_field)) if types.is_list(kind) else kind


def _in_unit(part: pa.Field) -> pa.Field:
    return part.with_type(in_unit_of_time(part.type))
