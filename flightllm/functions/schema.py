"""JSON Schema as an Arrow type: how structured answers become columns."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from jsonschema import Draft202012Validator, SchemaError
from jsonschema.exceptions import best_match
from referencing import Registry

from flightllm.errors import AICallError

_NAMED_FIELD = {"type": ["string", "null"], "maxLength": 200}
"""A field of which only the name was given: a short text, or null where the input does not say."""
_SCALARS = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "null": pa.null(),
}
_MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Shape:
    """A structured answer: its schema as canonical text, its Arrow type, its parser and a bound on its tokens."""

    text: str
    type: pa.DataType
    parse: Callable[[str], Any]
    max_tokens: int


def read_schema(schema: str | Sequence[str]) -> Shape:
    """Read a JSON Schema text, or a list of names for an object of nullable texts.

    Objects become structs, arrays lists, integers int64, numbers double; enums take the type of their values, and
    `$ref` to `#/$defs/…` and unions with null are followed. Objects take no properties beside the listed ones.

    Raises:
        AICallError: the text is no JSON Schema, or a part of it has no Arrow type; says which.
    """
    document = _named(schema) if not isinstance(schema, str) else _document(schema)
    reader = _Reader(document)
    type_ = reader.arrow_type(document, "$", 0)
    closed = reader.close(document)
    text = json.dumps(closed, ensure_ascii=False, separators=(",", ":"))
    validator = Draft202012Validator(closed, registry=Registry())  # an empty registry: nothing is ever fetched
    max_tokens = min(2048, 64 + 64 * _leaves(type_))
    return Shape(text, type_, lambda answer: _parse(answer, validator, type_), max_tokens)


def _named(names: Sequence[str]) -> dict[str, Any]:
    return {"type": "object", "properties": dict.fromkeys(names, _NAMED_FIELD), "required": list(names)}


def _document(text: str) -> dict[str, Any]:
    example = '{"type": "object", "properties": {"city": {"type": "string"}}}'
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AICallError(f"the schema is not JSON ({error}); write a JSON Schema such as {example}") from error
    if not isinstance(document, dict):
        raise AICallError(f"the schema must be a JSON object such as {example}")
    try:
        Draft202012Validator.check_schema(document)
    except (SchemaError, RecursionError) as error:
        raise AICallError(f"the schema is no JSON Schema: {str(error).splitlines()[0]}") from error
    return document


class _Reader:
    """Walks a schema with its `$defs`."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def arrow_type(self, schema: Any, path: str, depth: int) -> pa.DataType:
        """Return the Arrow type of one part; `path` is for messages."""
        if depth > _MAX_DEPTH:
            raise AICallError(f"the schema at {path} is nested too deeply or refers to itself")
        if not isinstance(schema, dict):
            raise AICallError(f"the schema at {path} must be an object with a type")
        if "$ref" in schema:
            return self.arrow_type(self._resolve(schema["$ref"], path), path, depth + 1)
        if "enum" in schema or "const" in schema:
            return _type_of_values(schema.get("enum", [schema.get("const")]), path)
        if union := schema.get("anyOf") or schema.get("oneOf"):
            return self._only(union, path, depth)
        match _type_name(schema, path):
            case "object":
                return self._struct(schema, path, depth)
            case "array" if "items" in schema:
                return pa.list_(self.arrow_type(schema["items"], f"{path}[]", depth + 1))
            case name if name in _SCALARS:
                return _SCALARS[name]
            case name:
                raise AICallError(f"the schema at {path} needs {'items' if name == 'array' else 'a known type'}")

    def close(self, schema: Any) -> Any:
        """Return the schema with `additionalProperties: false` in every object, at any depth; checks every `$ref`."""
        if isinstance(schema, list):
            return [self.close(part) for part in schema]
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema:
            self._resolve(schema["$ref"], "$ref")
        closed: dict[str, Any] = {}
        for key, value in schema.items():
            if key in {"properties", "$defs"} and isinstance(value, dict):
                closed[key] = {name: self.close(part) for name, part in value.items()}  # names here, no keywords
            else:
                closed[key] = value if key in {"enum", "const", "default", "examples"} else self.close(value)
        return {**closed, "additionalProperties": False} if "properties" in schema else closed

    def _struct(self, schema: Mapping[str, Any], path: str, depth: int) -> pa.DataType:
        properties = schema.get("properties")
        if not properties:
            raise AICallError(f"the object at {path} needs properties: a struct has named fields")
        return pa.struct(
            [(name, self.arrow_type(part, f"{path}.{name}", depth + 1)) for name, part in properties.items()]
        )

    def _only(self, union: Sequence[Any], path: str, depth: int) -> pa.DataType:
        types = {self.arrow_type(part, path, depth + 1) for part in union} - {pa.null()}
        if len(types) != 1:
            raise AICallError(f"the schema at {path} is a union of several types: a column has one")
        return types.pop()

    def _resolve(self, reference: Any, path: str) -> Any:
        part: Any = self._document
        for key in str(reference).removeprefix("#/").split("/"):
            part = part.get(key) if isinstance(part, dict) else None
        if not str(reference).startswith("#/") or part is None:
            raise AICallError(f"the schema at {path} refers to {reference!r}, which is not in it")
        return part


def _type_name(schema: Mapping[str, Any], path: str) -> str:
    declared = schema.get("type", "object" if "properties" in schema else None)
    names = set(declared) if isinstance(declared, list) else {declared}
    if len(names) > 1:
        names -= {"null"}
    if len(names) != 1 or names == {None}:
        raise AICallError(f'the schema at {path} needs one type (and perhaps null), such as {{"type": "string"}}')
    return str(names.pop())


def _type_of_values(values: Sequence[Any], path: str) -> pa.DataType:
    try:
        type_ = pa.array(values).type
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise AICallError(f"the values at {path} must be of one type: {error}") from error
    if type_ not in _SCALARS.values():
        raise AICallError(f"the values at {path} must be texts, numbers or booleans")
    return type_


def _leaves(type_: pa.DataType) -> int:
    """Count scalar fields; a list counts four times its item."""
    if pa.types.is_struct(type_):
        return sum(_leaves(field.type) for field in type_)
    return 4 * _leaves(type_.value_type) if pa.types.is_list(type_) else 1


def _parse(text: str, validator: Draft202012Validator, type_: pa.DataType) -> Any:
    try:
        value = json.loads(_unfenced(text), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"expected JSON; {error}") from error
    if found := best_match(validator.iter_errors(value)):
        raise ValueError(f"expected JSON that follows the schema; {found.json_path}: {found.message[:200]}")
    return _convert(value, type_)


def _unfenced(text: str) -> str:
    """Drop the code fence that unconstrained models like to put around JSON."""
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```"):
        return stripped.removeprefix("```").removeprefix("json").removesuffix("```")
    return stripped


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON number")


def _convert(value: Any, type_: pa.DataType) -> Any:
    """Make a validated JSON value one that Arrow takes: `3.0` is an integer in JSON Schema."""
    if value is None:
        return None
    if pa.types.is_struct(type_):
        return {field.name: _convert(value.get(field.name), field.type) for field in type_}
    if pa.types.is_list(type_):
        return [_convert(item, type_.value_type) for item in value]
    if pa.types.is_integer(type_):
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"expected a 64-bit integer; got {value}")
        return int(value)
    return float(value) if pa.types.is_floating(type_) else value
