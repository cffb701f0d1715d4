"""The Arrow types of stored columns: each kind of value has one layout, and every client can read that layout."""

import pyarrow as pa
import pyarrow.compute as pc

from flightllm.errors import InvalidInputError, UnsupportedError

_VARIABLE = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())
_OFFSET = 4
"""The bytes of one offset: the position at which a string or list begins in its column's data."""


def with_plain_types(schema: pa.Schema, *, unions: bool = False) -> pa.Schema:
    """Return a schema without views, large layouts, dictionaries, extension types and metadata, at any depth.

    With `unions`, union columns stay as they are.

    Raises:
        InvalidInputError: a column is run-end encoded (the Arrow version in DataFusion does not check it), or a list
            view (pyarrow cannot check it).
        UnsupportedError: a column is a union, and `unions` is False.
    """
    return pa.schema([_plain_field(field, field.name, unions) for field in schema])


def without_view_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose dictionaries hold no views: Arrow cannot cast a dictionary of views.

    polars sends its categorical columns as dictionaries of views.
    """
    columns = [_viewless(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _viewless(column: pa.Array) -> pa.Array:
    kind = column.type
    if not pa.types.is_dictionary(kind) or kind.value_type not in (pa.string_view(), pa.binary_view()):
        return column
    values = column.dictionary.cast(_plain(kind.value_type, "", unions=False))
    return pa.DictionaryArray.from_arrays(column.indices, values)


def _plain_field(field: pa.Field, column: str, unions: bool) -> pa.Field:  # noqa: FBT001
    return pa.field(field.name, _plain(field.type, column, unions), field.nullable)


def _plain(kind: pa.DataType, column: str, unions: bool) -> pa.DataType:  # noqa: FBT001
    types = pa.types
    if types.is_run_end_encoded(kind):
        raise InvalidInputError(f"column {column!r} is run-end encoded, which is not accepted; decode it first")
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(kind.storage_type, column, unions)
    if types.is_dictionary(kind):
        return _plain(kind.value_type, column, unions)
    if types.is_nested(kind):
        return _plain_nested(kind, column, unions)
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    return pa.binary() if types.is_large_binary(kind) or types.is_binary_view(kind) else kind


def _plain_nested(kind: pa.DataType, column: str, unions: bool) -> pa.DataType:  # noqa: FBT001
    types = pa.types
    parts = [_plain_field(kind.field(place), column, unions) for place in range(kind.num_fields)]
    if types.is_struct(kind):
        return pa.struct(parts)
    if types.is_map(kind):
        return pa.map_(*parts[0].type, keys_sorted=kind.keys_sorted)
    if types.is_fixed_size_list(kind):
        return pa.list_(parts[0], kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(parts[0])
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        raise InvalidInputError(f"column {column!r} is a list view, which is not accepted; send a list")
    if types.is_union(kind) and unions:
        return kind
    raise UnsupportedError(f"column {column!r} is of the unsupported type {kind}: send another type, such as text")


def elements(column: pa.Array) -> int:
    """Return how many values a column has at all depths.

    The count reads no value, so it is safe for corrupt columns.
    """
    return len(column) + sum(map(elements, _parts(column)))


def plain_bytes(batch: pa.RecordBatch) -> int:
    """Return how many bytes a valid batch takes in plain types, with at least one byte for each value.

    A short dictionary or view can become gigabytes in plain types. A value of the null type takes no bytes, so it
    counts as one byte.
    """
    return max(int(batch.num_rows), sum(map(_bytes, batch.columns)))


def _parts(column: pa.Array) -> list[pa.Array]:
    types, kind = pa.types, column.type
    if isinstance(kind, pa.BaseExtensionType):
        return [column.storage]
    if types.is_dictionary(kind):
        return [column.dictionary]
    if types.is_map(kind):
        return [column.keys, column.items]
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return [column.values]
    has_fields = types.is_struct(kind) or types.is_union(kind)
    return [column.field(place) for place in range(kind.num_fields)] if has_fields else []


def _bytes(column: pa.Array) -> int:
    types, kind = pa.types, column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _bytes(column.storage)
    if types.is_dictionary(kind):
        return _bytes_of_values(column)
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return _OFFSET * len(column) + _sum(_view_lengths(column))
    if parts := _parts(column):
        return _OFFSET * len(column) + sum(_bytes(_used(part, column)) for part in parts)
    return max(len(column), int(column.nbytes))


def _used(part: pa.Array, column: pa.Array) -> pa.Array:
    """Return the elements in `part` that belong to this slice of a list or map column.

    For other types, return all of `part`.
    """
    kind, length = column.type, len(column)
    if pa.types.is_fixed_size_list(kind):
        return part.slice(column.offset * kind.list_size, length * kind.list_size)
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind)):
        return part
    first, last = (column.offsets[place].as_py() for place in (0, length)) if length else (0, 0)
    return part.slice(first, last - first)


def _bytes_of_values(column: pa.DictionaryArray) -> int:
    """Return the bytes of a dictionary's values, counting each value as often as an index refers to it."""
    values = column.dictionary
    if values.type in (pa.string_view(), pa.binary_view()):
        return _OFFSET * len(column) + _sum(_view_lengths(values).take(column.indices))
    if values.type not in _VARIABLE:  # all values have the same width, or the cast fails later
        return len(column) * (int(values.nbytes) // max(1, len(values)) + 1)
    return _OFFSET * len(column) + _sum(pc.binary_length(values).take(column.indices).cast(pa.int64()))


def _sum(lengths: pa.Array) -> int:
    return int(pc.sum(lengths).as_py() or 0)


def _view_lengths(column: pa.Array) -> pa.Array:
    """Return the length of each value: the first four of the sixteen bytes of each view."""
    words = pa.Array.from_buffers(pa.int32(), 4 * len(column), [None, column.buffers()[1]], offset=4 * column.offset)
    lengths = pc.list_element(pa.FixedSizeListArray.from_arrays(words, 4), 0).cast(pa.int64())
    return pc.if_else(column.is_valid(), lengths, 0)
