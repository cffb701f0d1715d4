"""Give JSON values the types of their schema where nothing is lost: `"5"` for an integer, 5 for a text, a missing null.

An endpoint that does not enforce a schema gets these trifles wrong. A list of one value stands for the value, and an
empty list for null. A value of another kind keeps its form, and the validation refuses it: `"abc"` for an integer, or
two names for one. To choose one of two names, or NULL, would be silently wrong.
"""

from __future__ import annotations

import json
import re
from typing import Any

from flightllm.common.written_float import WrittenFloat
from flightllm.engines.openai.strict import resolved, takes_null

_ALONE = frozenset({"string", "integer", "number", "boolean", "object", "null"})
"""Types of values that a list with a single one of them can mean."""
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_WHOLE_WITH_POINT = re.compile(rf"{_WHOLE.pattern}\.0{{1,9}}")
_NUMBER = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:[eE][-+]?[0-9]{1,3})?")


def coerced(value: Any, schema: Any) -> Any:
    """Return a value with the types that `schema` asks for; a value that does not fit keeps its form."""
    return _coerced(value, schema, schema)


def _coerced(value: Any, part: Any, root: Any) -> Any:
    part = resolved(part, root)
    union = [one for one in part.get("anyOf") or part.get("oneOf") or [] if resolved(one, root).get("type") != "null"]
    if value is None or (value == [] and takes_null(part) and not _takes_list(part, root)):
        return None
    if len(union) == 1 and "properties" not in part:
        return _coerced(value, union[0], root)
    kind = part.get("type")
    kinds = set(kind) if isinstance(kind, list) else {kind}
    if isinstance(value, list) and kinds <= _ALONE:
        if len(value) == 1 and not isinstance(value[0], list):
            return _coerced(value[0], part, root)
        return value
    if isinstance(value, list):
        return [_coerced(one, part.get("items", {}), root) for one in value]
    if isinstance(value, dict):
        return _object(value, part, root)
    return _scalar(value, kinds)


def _takes_list(part: dict[str, Any], root: Any) -> bool:
    kinds = [resolved(one, root).get("type") for one in (part, *(part.get("anyOf") or part.get("oneOf") or []))]
    return any("array" in kind for kind in kinds if isinstance(kind, str | list))


def _object(value: dict[str, Any], part: dict[str, Any], root: Any) -> dict[str, Any]:
    """Return an object without further keys and with the nulls that it lacks, unless it has no key of the schema."""
    properties = part.get("properties", {})
    if not properties.keys() & value.keys():
        return value
    closed = part.get("additionalProperties") is False
    known = {
        name: _coerced(one, properties[name], root) if name in properties else one
        for name, one in value.items()
        if name in properties or not closed
    }
    missing = [name for name in part.get("required", []) if name in properties and name not in value]
    return known | {name: None for name in missing if takes_null(resolved(properties[name], root))}


def _scalar(value: Any, kinds: set[Any]) -> Any:
    match value:
        case bool():
            return value
        case WrittenFloat() if "string" in kinds and "number" not in kinds:
            return value.text
        case int() if "string" in kinds and not {"integer", "number"} & kinds:
            return str(value)
        case str() if "string" not in kinds:
            return _read(value.strip(), kinds)
        case _:
            return value


def _read(text: str, kinds: set[Any]) -> Any:
    """Return the number or boolean in a text, or the text."""
    if kinds & {"integer", "number"} and _WHOLE.fullmatch(text):
        return int(text)
    if "integer" in kinds and _WHOLE_WITH_POINT.fullmatch(text):
        return int(text.partition(".")[0])
    if "number" in kinds and _NUMBER.fullmatch(text):
        return float(text)
    if "boolean" in kinds and text.lower() in {"true", "false"}:
        return json.loads(text.lower())
    return text
