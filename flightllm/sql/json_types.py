"""The types of a statement's expressions with the types of JSON as types of their own, in place of text."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from flightllm.common.json_columns import JSONB, ColumnTypes
from flightllm.functions import jsonb
from flightllm.sql.nodes import Json, body, kind
from flightllm.sql.query_columns import Known, TableColumns, Type
from flightllm.sql.types import ExpressionTypes, function_name

_JSONB_CALLS: Final = frozenset({jsonb.JSONB, jsonb.AT_PATH, jsonb.MERGED, jsonb.WITHOUT, jsonb.SET_AT, jsonb.STRIPPED})
"""Functions whose values are jsonb."""


class JsonType(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """A type of JSON, such as jsonb, whose values are texts."""

    def __init__(self, name: str) -> None:
        """Take the name of the type in CREATE TABLE."""
        self._name = name
        super().__init__(pa.string(), "flightllm.json")

    def __hash__(self) -> int:
        """Return the hash of the name: the hash of pyarrow's class is an error."""
        return hash(self._name)

    def __arrow_ext_serialize__(self) -> bytes:
        """Return the name."""
        return self._name.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, _storage: pa.DataType, serialized: bytes) -> "JsonType":
        """Return the type of a name."""
        return cls(serialized.decode())


JSONB_TYPE: Final = JsonType(JSONB)


class JsonTypes(ExpressionTypes):
    """The types of the expressions of one statement; those of stored JSON and of parts of jsonb are `JsonType`."""

    def __init__(self, root: Json, columns_of: TableColumns) -> None:
        """Read the statement; see `ExpressionTypes`."""

        def found(parts: Sequence[str]) -> Mapping[str, pa.DataType]:
            types = columns_of(parts)
            of_json = types.json if isinstance(types, ColumnTypes) else {}
            return {name: JsonType(of_json[name]) if name in of_json else given for name, given in types.items()}

        super().__init__(root, replace(columns_of, columns_of=found) if isinstance(columns_of, Known) else found)

    def is_json(self, expression: Json) -> bool:
        """Return whether an expression is surely a stored JSON, or the part of a jsonb."""
        return isinstance(self.of(expression), JsonType)

    def _type(self, expression: Json, types: Sequence[Type]) -> Type:
        name = function_name(body(expression)) if kind(expression) == "Function" else ""
        if name in _JSONB_CALLS or (name == "json_extract" and types[:1] == [JSONB_TYPE]):
            return JSONB_TYPE
        return super()._type(expression, types)
