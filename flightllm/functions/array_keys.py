"""Keys by which arrays are in PostgreSQL's order: a NULL element is the greatest one.

For DataFusion it is the least one.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from flightllm.functions.own import OwnFunction

KEY_FUNCTIONS: Final[Mapping[pa.DataType, str]] = {
    pa.bool_(): "__flag_array_key",
    pa.int64(): "__long_array_key",
    pa.float64(): "__double_array_key",
    pa.decimal128(38, 10): "__decimal_array_key",
    pa.string(): "__text_array_key",
    pa.binary(): "__bytes_array_key",
    pa.date32(): "__date_array_key",
    pa.time64("ns"): "__time_array_key",
    pa.timestamp("ns"): "__timestamp_array_key",
    pa.timestamp("ns", "UTC"): "__zoned_array_key",
}
"""The name of `array_key` in SQL for each type of elements."""


def array_key(arrays: pa.Array) -> pa.Array:
    """Return arrays of (is NULL, value) for arrays of values; DataFusion compares them field by field."""
    lengths = pc.fill_null(pc.list_value_length(arrays), 0)
    ends = pc.cumulative_sum(pc.cast(lengths, pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    values = arrays.flatten()
    if pa.types.is_floating(values.type):
        values = pc.add(values, 0.0)  # -0 equals 0
    elements = pa.StructArray.from_arrays([pc.is_null(values), values], fields=list(key_type(values.type).value_type))
    return pa.ListArray.from_arrays(offsets, elements, mask=pc.is_null(arrays))


def key_type(element: pa.DataType) -> pa.ListType:
    """Return the type of the keys of arrays with elements of a type.

    The fields have the names that DataFusion's `struct` gives: it writes the key of a constant array with this call.
    """
    return pa.list_(pa.struct([("c0", pa.bool_()), ("c1", element)]))


FUNCTIONS: Final = (
    *(OwnFunction(array_key, (pa.list_(one),), key_type(one), name) for one, name in KEY_FUNCTIONS.items()),
)
