"""The columns of JSON: texts in Arrow, with the declared type in the mark of their field."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from flightllm.common.arrow_types import declared, marked

JSONB: Final = "jsonb"
NAMES: Final = frozenset({"json", JSONB, "variant", "object"})
"""The names of types in CREATE TABLE whose columns have JSON."""
_OF_POSTGRES: Final = frozenset({"json", JSONB})
_KEY, _PG_TYPE = b"json_type", b"pg_type"


class ColumnTypes(dict[str, pa.DataType]):
    """The Arrow types of a table's columns by name; `json` has the declared type of each column of JSON.

    `schema` is the schema of the table, which the maker sets: most queries read no column of JSON.
    """

    schema: pa.Schema = pa.schema([])

    @property
    def json(self) -> Mapping[str, str]:
        """Return the declared types of the columns of JSON by name."""
        return json_types(self.schema)


def with_json_types(schema: pa.Schema, types: Mapping[str, str]) -> pa.Schema:
    """Return a schema whose fields in `types` are marked as JSON of a type of `NAMES`."""
    fields = []
    for field in schema:
        name = types.get(field.name)
        told = {} if name is None else {_KEY: name, **({_PG_TYPE: name} if name in _OF_POSTGRES else {})}
        fields.append(pa.field(field.name, field.type, field.nullable, told or None))
    return marked(schema, pa.schema(fields)) if types else schema


def json_types(schema: pa.Schema) -> Mapping[str, str]:
    """Return the declared type of each column of JSON of a stored table by the column's name."""
    if all(field.metadata is None for field in schema):
        return {}
    told = {field.name: (field.metadata or {}).get(_KEY) for field in declared(schema)}
    return {name: kind.decode() for name, kind in told.items() if kind is not None}
