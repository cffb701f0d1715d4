"""The Arrow types of stored columns, and the properties that clients declare beyond these types.

Each kind of value has one layout, and every client can read that layout. Declared properties are extension types and
fields' metadata. DataFusion computes only with the storage type. The metadata of a stored field therefore holds a mark:
the declared field, serialized. DataFusion passes metadata on with a plain column, and drops it where a function
computes a new value.
"""

import base64
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from flightllm.common.expressions import unaliased
from flightllm.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from datafusion import DataFrame

_VARIABLE = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())
_OFFSET = 4
"""The bytes of one offset: the position at which a string or list begins in its column's data."""
_TEXT_BYTES = 32
"""The assumed bytes of a text, or of another value whose length differs."""
_MARK = b"flightllm:declared"
_OF_FILES = b"PARQUET:"
"""The prefix of metadata keys that describe a Parquet file and not a column."""
_PASSED_ON = ("Cast", "TryCast", "Negative")
"""Expressions through which DataFusion passes a column's metadata although the value changes."""
_ON_STORAGE: Mapping[str, Callable[[pa.DataType, pa.DataType], pa.DataType]] = {
    "arrow.json": lambda _, storage: pa.json_(storage),
    "arrow.opaque": lambda kind, storage: pa.opaque(storage, kind.type_name, kind.vendor_name),
}
"""Extension types that accept any layout of their storage type."""


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


def is_list(kind: pa.DataType) -> bool:
    """Return whether values are lists, of any layout."""
    types = pa.types
    tests = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)
    return any(test(kind) for test in tests)


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
    raise UnsupportedError(f"column {column!r} has the unsupported type {kind}: send it as another type, such as text")


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


def marked(stored: pa.Schema, given: pa.Schema) -> pa.Schema:
    """Return a table's fields, each marked with the declaration of the field of the same name in `given`."""
    return pa.schema([_marked(field, given.field(field.name)) for field in stored])


def _marked(stored: pa.Field, given: pa.Field) -> pa.Field:
    metadata = {key: value for key, value in (given.metadata or {}).items() if not key.startswith(_OF_FILES)}
    if not metadata and not isinstance(given.type, pa.BaseExtensionType):
        return stored
    one = pa.schema([pa.field("", given.type, metadata=metadata)])
    return stored.with_metadata({_MARK: base64.b64encode(one.serialize().to_pybytes())})


def declared(schema: pa.Schema) -> pa.Schema:
    """Return fields as declared, read from their marks; a field whose storage type has changed stays plain."""
    return pa.schema([_declared(field) for field in schema])


def _declared(field: pa.Field) -> pa.Field:
    mark = (field.metadata or {}).get(_MARK)
    plain = pa.field(field.name, field.type, field.nullable)
    if mark is None:
        return plain
    (given,) = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(mark)))
    kind = given.type
    if not isinstance(kind, pa.BaseExtensionType):
        return plain.with_metadata(given.metadata)
    if kind.storage_type != field.type and kind.extension_name in _ON_STORAGE:
        try:
            kind = _ON_STORAGE[kind.extension_name](kind, field.type)
        except (TypeError, ValueError, pa.ArrowException):  # the extension type does not accept this storage
            return plain
    if kind.storage_type != field.type:
        return plain
    return pa.field(field.name, kind, field.nullable, given.metadata)


def shown_fields(names: list[str], types: list[pa.DataType], coerced: pa.Schema, frame: "DataFrame") -> pa.Schema:
    """Return the columns of a query's result as users see them; plain columns regain their declared types."""
    computed = _computed(frame) if any(_MARK in (field.metadata or {}) for field in coerced) else frozenset()
    fields = []
    for index, (name, kind, field) in enumerate(zip(names, types, coerced, strict=True)):
        mark = None if index in computed else (field.metadata or {}).get(_MARK)
        fields.append(pa.field(name, kind, metadata=None if mark is None else {_MARK: mark}))
    return declared(pa.schema(fields))


def _computed(frame: "DataFrame") -> frozenset[int]:
    """Return the indexes of the columns that the outermost SELECT computes though they carry a column's metadata."""
    from datafusion.expr import Projection  # SQLAlchemy's dialect reads types without DataFusion

    plan = frame.logical_plan()
    while not isinstance(variant := plan.to_variant(), Projection):
        inputs = plan.inputs()
        if len(inputs) != 1:
            return frozenset()
        (plan,) = inputs
    found = set()
    for index, expression in enumerate(variant.projections()):
        if unaliased(expression).variant_name() in _PASSED_ON:
            found.add(index)
    return frozenset(found)


def wrapped(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column of storage values as a column of the extension type `kind`."""
    return pa.ExtensionArray.from_storage(kind, column)


def value_width(kind: pa.DataType) -> int:
    """Estimate the bytes of one value in memory."""
    if pa.types.is_fixed_size_list(kind):
        return max(1, int(kind.list_size)) * value_width(kind.value_type)
    return kind.bit_width // 8 or 1 if pa.types.is_primitive(kind) else _TEXT_BYTES
