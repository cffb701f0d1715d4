"""Convert JSON Schemas to OpenAI's strict mode, and answers of strict mode back to the original schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LEFT_OUT = frozenset({"$schema", "default", "examples", "minLength", "maxLength", "uniqueItems", "title"})
"""Keywords that strict mode rejects; the caller validates the answer with the whole schema anyway."""
_IMPOSSIBLE = frozenset(
    {"allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties", "prefixItems"}
)
_NAMES = frozenset({"properties", "$defs", "definitions"})
_LITERALS = frozenset({"enum", "const"})
KEY = "answer"
"""The key of a value that is not an object, because the root must be an object."""


def strict_schema(schema: Any) -> Any | None:
    """Return the schema with all properties required, and optional ones nullable; None if it has no strict form."""
    try:
        return _strict(schema)
    except _ImpossibleError:
        return None


def rooted(schema: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return a schema whose root is an object, and whether the given schema was wrapped into this object."""
    if schema.get("type") == "object" or ("type" not in schema and "properties" in schema):
        return dict(schema), False
    definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    inner = {key: value for key, value in schema.items() if key not in definitions}
    properties = {"properties": {KEY: inner}, "required": [KEY], "additionalProperties": False}
    return {"type": "object", **properties, **definitions}, True


def without_nulls(value: Any, schema: Any) -> Any:
    """Return a value without the nulls of missing optional properties; `schema` is the original schema."""
    return _undone(value, schema, schema)


class _ImpossibleError(Exception):
    """An error for a part of a schema that has no strict form."""


def _strict(part: Any) -> Any:
    if isinstance(part, list):
        return [_strict(one) for one in part]
    if not isinstance(part, dict):
        return part
    if _IMPOSSIBLE & part.keys() or isinstance(part.get("additionalProperties"), dict):
        raise _ImpossibleError
    found: dict[str, Any] = {}
    for key, value in part.items():
        if key in _LEFT_OUT:
            continue
        if key in _NAMES and isinstance(value, dict):
            found[key] = {name: _strict(one) for name, one in value.items()}
        else:
            found["anyOf" if key == "oneOf" else key] = value if key in _LITERALS else _strict(value)
    if "properties" in found:
        required = part.get("required", [])
        found["properties"] = {
            name: one if name in required else _nullable(one) for name, one in found["properties"].items()
        }
        found |= {"type": found.get("type", "object"), "required": list(found["properties"])}
        found["additionalProperties"] = False
    elif found.get("type") == "object":
        raise _ImpossibleError  # strict mode has no objects with free property names
    return found


def _nullable(part: Any) -> Any:
    return part if takes_null(part) else {"anyOf": [part, {"type": "null"}]}


def takes_null(part: Any) -> bool:
    """Return whether a part of a schema names null as a type."""
    if not isinstance(part, dict):
        return False
    kind, union = part.get("type"), part.get("anyOf") or part.get("oneOf") or []
    return kind == "null" or (isinstance(kind, list) and "null" in kind) or any(map(takes_null, union))


def _undone(value: Any, part: Any, root: Any) -> Any:
    part = resolved(part, root)
    if isinstance(value, list):
        items = part.get("items", {})
        return [_undone(one, items, root) for one in value]
    if not isinstance(value, dict):
        return value
    properties, required = _object(part, root)
    kept: dict[str, Any] = {}
    for name, one in value.items():
        inner = resolved(properties.get(name, {}), root)
        if one is not None or name in required or takes_null(inner) or name not in properties:
            kept[name] = _undone(one, inner, root)
    return kept


def _object(part: Mapping[str, Any], root: Any) -> tuple[Mapping[str, Any], list[str]]:
    """Return the properties of an object, or of the object in a union, and the names of the required ones."""
    for one in (part, *(resolved(one, root) for one in part.get("anyOf") or part.get("oneOf") or [])):
        if "properties" in one:
            return one["properties"], one.get("required", [])
    return {}, []


def resolved(part: Any, root: Any) -> dict[str, Any]:
    """Return the part to which `$ref` leads, in a schema with the root `root`, or an empty part."""
    for _ in range(32):
        reference = part.get("$ref") if isinstance(part, dict) else None
        if not isinstance(reference, str):
            break
        part = root
        for key in reference.removeprefix("#/").split("/"):
            part = part.get(key) if isinstance(part, dict) else None
    return part if isinstance(part, dict) else {}
