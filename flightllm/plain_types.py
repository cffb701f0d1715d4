"""The Arrow types that columns are kept as: one layout for each kind of value, which every client can read."""

import pyarrow as pa

from flightllm.errors import InvalidInputError, UnsupportedError


def with_plain_types(schema: pa.Schema, *, unions: bool = False) -> pa.Schema:
    """Return a schema without views, large layouts, dictionaries, extension types and metadata, at any depth.

    With `unions` these stay as they are.

    Raises:
        InvalidInputError: a column is run-end encoded, which the Arrow inside DataFusion does not check, or a list
            view, which pyarrow cannot check.
        UnsupportedError: a column is a union.
    """
    return pa.schema([_plain_field(field, field.name, unions) for field in schema])


def without_view_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose dictionaries hold no views, of which Arrow cannot take the values that a cast needs.

    polars sends its categories so.
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
    raise UnsupportedError(f"column {column!r} is of type {kind}, which is not supported: decode it before sending")
