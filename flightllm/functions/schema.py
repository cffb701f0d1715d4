"""JSON Schema as Arrow types: how structured answers become columns."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flightllm.common.text import well_formed_value
from flightllm.engines.bounded_schema import MOST_TEXT, bounded
from flightllm.errors import AICallError
from flightllm.functions.call import Room

NAMED_FIELD = {"type": ["string", "null"]}
"""A field with only a name: a text, or null where the input does not have it."""
_SCALARS = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "null": pa.null(),
}
_MAX_DEPTH = 32
_TEXT_TOKENS = 320
"""Room for a text: about the tokens of `MOST_TEXT` characters in most languages."""
_MOST_PARTS = 1_000
"""Parts of a schema with every `$ref` replaced: a text of 2 KB can expand to billions of parts."""
_NAMES = {"properties", "$defs", "definitions", "dependentSchemas"}
"""Keywords whose own keys are names, not keywords."""
_DECIDING = {"type", "$ref", "enum", "const", "anyOf", "oneOf"}
"""Keywords that determine the type of a value."""
_REFUSED = {"$id", "$dynamicRef", "patternProperties", "unevaluatedProperties", "unevaluatedItems"}
"""Keywords that have no column type, hide parts from the count, or make validation check some parts many times."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A structured answer: its schema as canonical text, its Arrow type, its parser and a limit on its tokens."""

    text: str
    type: pa.DataType
    parse: Callable[[str], Any]
    max_tokens: int
    room: Room
    """A limit that fits texts of the greatest length."""


def read_schema(schema: str | Mapping[str, Any] | Sequence[str]) -> Shape:
    """Read a JSON Schema as a text or a dict, or a list of names for an object of nullable texts.

    Objects become structs, arrays lists, integers int64, numbers double. Enums take the type of their values. `$ref` to
    `#/$defs/…` and unions with null are supported. Objects allow no properties except those listed. Patterns have RE2's
    syntax, whose matching time is linear in the answer's length.

    Raises:
        AICallError: it is not a JSON Schema, or a part of it has no Arrow type; the error names the part.
    """
    from flightllm.functions.json_validation import fault_of, validator_of  # slow to import

    text = _written(schema) if isinstance(schema, Mapping) else schema
    document = _document(text) if isinstance(text, str) else _named(text)
    reader = _SchemaReader(document)
    reader.check_size()
    type_ = reader.arrow_type(document, "$", 0)
    closed = reader.close(document)
    text = json.dumps(closed, ensure_ascii=False, separators=(",", ":"))
    validator = validator_of(closed)
    max_tokens = min(2048, 64 + 64 * _leaves(type_))
    shorter = validator_of(json.loads(bounded(text, MOST_TEXT - 1)))
    room = Room(64 + _TEXT_TOKENS * _leaves(type_, texts=True) + 64 * _leaves(type_))

    def parse(answer: str) -> Any:
        value = json_value(answer)
        if fault := fault_of(validator, value):
            raise ValueError(f"expected JSON that follows the schema; {fault}")
        if MOST_TEXT in _lengths(value) and not shorter.is_valid(value):
            raise ValueError(f"a text was cut at {MOST_TEXT:,} characters: give it a maxLength in the schema")
        return _convert(value, type_)

    return Shape(text, type_, parse, max_tokens, room)


def _written(schema: Mapping[str, Any]) -> str:
    """Return a schema that a dict gives as JSON; its values can have any type, for users' functions."""
    try:
        return json.dumps(dict(schema), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise AICallError(f"the schema is not JSON ({error}): it has only dicts, lists, texts and numbers") from error


def _named(names: object) -> dict[str, Any]:
    """Return the schema of an object with the named fields; `names` can have any type, for users' functions."""
    if not isinstance(names, Sequence) or isinstance(names, bytes):
        raise AICallError(f"the schema must be a text, a dict or a list of field names such as ['city'], not {names!r}")
    for name in names:
        if not isinstance(name, str):
            raise AICallError(f"each field name of the schema must be a text, not {name!r}")
    return {"type": "object", "properties": dict.fromkeys(names, NAMED_FIELD), "required": list(names)}


def _document(text: str) -> dict[str, Any]:
    from flightllm.functions.json_validation import check_schema  # slow to import

    example = '{"type": "object", "properties": {"city": {"type": "string"}}}'
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AICallError(f"the schema is not JSON ({error}); write a JSON Schema such as {example}") from error
    if not isinstance(document, dict):
        raise AICallError(f"the schema must be a JSON object such as {example}")
    check_schema(document)
    return document


class _SchemaReader:
    """Reads the types of a schema and its `$defs`."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._sizes: dict[str, int | None] = {}
        """Sizes of the parts that references refer to; None while a part is being counted."""

    def check_size(self) -> None:
        """Raise `AICallError` if the schema is endless or too large with every `$ref` replaced."""
        size = self._size({key: part for key, part in self._document.items() if key != "$id"})
        if size > _MOST_PARTS:
            raise AICallError(f"the schema has {size:,} parts with every $ref replaced; the limit is {_MOST_PARTS:,}")

    def _size(self, part: Any, *, names: bool = False) -> int:
        if isinstance(part, list):
            return sum(map(self._size, part))
        if not isinstance(part, dict):
            return 0
        if names:
            return sum(map(self._size, part.values()))
        if refused := _REFUSED & part.keys():
            raise AICallError(f"the schema has {min(refused)!r}, which is not supported: name properties one by one")
        _check_pattern(part.get("pattern"))
        size = 1 + sum(self._size(value, names=key in _NAMES) for key, value in part.items())
        return size + self._referred(part["$ref"]) if isinstance(part.get("$ref"), str) else size

    def _referred(self, reference: str) -> int:
        if reference not in self._sizes:
            self._sizes[reference] = None
            self._sizes[reference] = self._size(self._resolve(reference, "$ref"))
        if (size := self._sizes[reference]) is None:
            raise AICallError(f"the schema at {reference!r} is nested too deeply or refers to itself")
        return size

    def arrow_type(self, schema: Any, path: str, depth: int) -> pa.DataType:
        """Return the Arrow type of one part; `path` is its place for error messages."""
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
        """Return the schema with each object closed at any depth: it allows no other properties. Checks every `$ref`.

        In JSON Schema, `{"properties": …}` without a type also allows texts and numbers; here it gets `"type":
        "object"`.
        """
        if isinstance(schema, list):
            return [self.close(part) for part in schema]
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema:
            self._resolve(schema["$ref"], "$ref")
        closed: dict[str, Any] = {}
        for key, value in schema.items():
            if key in {"properties", "$defs"} and isinstance(value, dict):
                closed[key] = {name: self.close(part) for name, part in value.items()}  # keys are names here
            else:
                closed[key] = value if key in {"enum", "const", "default", "examples"} else self.close(value)
        if "properties" not in schema:
            return closed
        typed = {} if _DECIDING & schema.keys() else {"type": "object"}
        return {**typed, **closed, "additionalProperties": False}

    def _struct(self, schema: Mapping[str, Any], path: str, depth: int) -> pa.DataType:
        properties = schema.get("properties")
        if not properties:
            raise AICallError(f"the object at {path} needs properties: a struct column has named fields")
        return pa.struct(
            [(name, self.arrow_type(part, f"{path}.{name}", depth + 1)) for name, part in properties.items()]
        )

    def _only(self, union: Sequence[Any], path: str, depth: int) -> pa.DataType:
        types = {self.arrow_type(part, path, depth + 1) for part in union} - {pa.null()}
        if len(types) != 1:
            raise AICallError(f"the schema at {path} is a union of several types: a column has only one type")
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


def _leaves(type_: pa.DataType, *, texts: bool = False) -> int:
    """Count scalar fields, or only texts; a list counts as four of its items."""
    if pa.types.is_struct(type_):
        return sum(_leaves(field.type, texts=texts) for field in type_)
    if pa.types.is_list(type_):
        return 4 * _leaves(type_.value_type, texts=texts)
    return int(pa.types.is_string(type_) or not texts)


def _lengths(value: Any) -> set[int]:
    """Return the lengths in characters of all texts in a value."""
    if isinstance(value, dict | list):
        return set().union(*map(_lengths, value.values() if isinstance(value, dict) else value))
    return {len(value)} if isinstance(value, str) else set()


def json_value(text: str) -> Any:
    """Return the JSON value that a model wrote, with or without a code fence.

    Raises:
        ValueError: the text is not JSON.
    """
    try:
        return well_formed_value(json.loads(_unfenced(text), parse_constant=_refuse))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"expected JSON; {error}") from error


def _check_pattern(pattern: Any) -> None:
    from flightllm.functions.json_validation import finds  # slow to import

    try:
        finds(pattern if isinstance(pattern, str) else "", "")
    except pa.ArrowInvalid as error:
        raise AICallError(
            f"the schema's pattern {pattern!r} has look-around, repeats too often or is malformed: {error}"
        ) from error


def _unfenced(text: str) -> str:
    """Remove the code fence that unconstrained models often put around JSON."""
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```"):
        return stripped.removeprefix("```").removeprefix("json").removesuffix("```")
    return stripped


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number")


def _convert(value: Any, type_: pa.DataType) -> Any:
    """Turn a validated JSON value into one that Arrow accepts: `3.0` is an integer in JSON Schema."""
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
    if pa.types.is_floating(type_):
        if not abs(value) <= sys.float_info.max:
            raise ValueError("expected a number that a double can hold")
        return float(value)
    return value
