"""Column properties that clients declare beyond the stored type: extension types and fields' metadata.

DataFusion computes only with the storage type. The metadata of a stored field therefore holds a mark: the declared
field, serialized. DataFusion passes metadata on with a plain column, and drops it where a function computes a new
value.
"""

import base64
from collections.abc import Callable, Mapping

import pyarrow as pa
from datafusion import DataFrame
from datafusion.expr import Projection

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


def shown_fields(names: list[str], types: list[pa.DataType], coerced: pa.Schema, frame: DataFrame) -> pa.Schema:
    """Return the columns of a query's result as users see them; plain columns regain their declared types."""
    computed = _computed(frame) if any(_MARK in (field.metadata or {}) for field in coerced) else frozenset()
    fields = []
    for index, (name, kind, field) in enumerate(zip(names, types, coerced, strict=True)):
        mark = None if index in computed else (field.metadata or {}).get(_MARK)
        fields.append(pa.field(name, kind, metadata=None if mark is None else {_MARK: mark}))
    return declared(pa.schema(fields))


def _computed(frame: DataFrame) -> frozenset[int]:
    """Return the indexes of the columns that the outermost SELECT computes though they carry a column's metadata."""
    plan = frame.logical_plan()
    while not isinstance(variant := plan.to_variant(), Projection):
        inputs = plan.inputs()
        if len(inputs) != 1:
            return frozenset()
        (plan,) = inputs
    found = set()
    for index, expression in enumerate(variant.projections()):
        inner = expression
        while inner.variant_name() == "Alias":
            inner = inner.to_variant().expr()
        if inner.variant_name() in _PASSED_ON:
            found.add(index)
    return frozenset(found)


def wrapped(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column of storage values as a column of the extension type `kind`."""
    return pa.ExtensionArray.from_storage(kind, column)
