"""What clients declare of columns beyond the type that they are stored as: extension types and fields' metadata.

DataFusion computes with the storage alone. A mark in the metadata of a stored field says what was declared; DataFusion
hands it on with a plain column, and leaves it out where a function makes another value of it.
"""

import base64
from collections.abc import Callable, Mapping

import pyarrow as pa
from datafusion import DataFrame
from datafusion.expr import Projection

_MARK = b"flightllm:declared"
_OF_FILES = b"PARQUET:"
"""What begins the keys that describe a file and no column."""
_PASSED_ON = ("Cast", "TryCast", "Negative")
"""Expressions with which DataFusion hands on the metadata of a column, though their value is another one."""
_ON_STORAGE: Mapping[str, Callable[[pa.DataType, pa.DataType], pa.DataType]] = {
    "arrow.json": lambda _, storage: pa.json_(storage),
    "arrow.opaque": lambda kind, storage: pa.opaque(storage, kind.type_name, kind.vendor_name),
}
"""Extension types that any layout of their storage can have."""


def marked(stored: pa.Schema, given: pa.Schema) -> pa.Schema:
    """Return the fields of a table, marked with what an upload or a query declared of those of the same names."""
    return pa.schema([_marked(field, given.field(field.name)) for field in stored])


def _marked(stored: pa.Field, given: pa.Field) -> pa.Field:
    metadata = {key: value for key, value in (given.metadata or {}).items() if not key.startswith(_OF_FILES)}
    if not metadata and not isinstance(given.type, pa.BaseExtensionType):
        return stored
    one = pa.schema([pa.field("", given.type, metadata=metadata)])
    return stored.with_metadata({_MARK: base64.b64encode(one.serialize().to_pybytes())})


def declared(schema: pa.Schema) -> pa.Schema:
    """Return fields as they were declared, by their marks; one of another storage than was declared stays plain."""
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
        except (TypeError, ValueError, pa.ArrowException):  # no storage of such a type
            return plain
    if kind.storage_type != field.type:
        return plain
    return pa.field(field.name, kind, field.nullable, given.metadata)


def shown_fields(names: list[str], types: list[pa.DataType], coerced: pa.Schema, frame: DataFrame) -> pa.Schema:
    """Return the columns that a query's user sees; plain columns as they were declared."""
    computed = _computed(frame) if any(_MARK in (field.metadata or {}) for field in coerced) else frozenset()
    fields = []
    for index, (name, kind, field) in enumerate(zip(names, types, coerced, strict=True)):
        mark = None if index in computed else (field.metadata or {}).get(_MARK)
        fields.append(pa.field(name, kind, metadata=None if mark is None else {_MARK: mark}))
    return declared(pa.schema(fields))


def _computed(frame: DataFrame) -> frozenset[int]:
    """Return which columns the outermost SELECT computes though they have a column's metadata."""
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
    """Return a column of an extension type's storage as one of the type itself."""
    return pa.ExtensionArray.from_storage(kind, column)
