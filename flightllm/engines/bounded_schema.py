"""Bound the strings in a JSON Schema for an engine: a weak model can fill an unbounded string up to its token limit."""

import json
from functools import lru_cache
from typing import Any

MOST_TEXT = 1_000
"""The bound, in characters, for a string without a bound in the schema."""
_BOUNDS = frozenset({"maxLength", "enum", "const", "pattern", "format"})
_NAMES = frozenset({"properties", "$defs", "definitions"})
"""Keywords whose own keys are names."""
_VALUES = frozenset({"enum", "const", "default", "examples"})


@lru_cache(maxsize=256)
def bounded(schema: str, most: int = MOST_TEXT) -> str:
    """Return a JSON Schema text in which each string without a bound has a `maxLength` of `most` characters.

    A string has a bound where the schema has a `maxLength`, `enum`, `const`, `pattern` or `format` for it. The rest of
    the schema does not change.
    """
    document = json.loads(schema)
    found = _bounded(document, most)
    return schema if found == document else json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def _bounded(part: Any, most: int) -> Any:
    if isinstance(part, list):
        return [_bounded(one, most) for one in part]
    if not isinstance(part, dict):
        return part
    found: dict[str, Any] = {}
    for key, value in part.items():
        if key in _NAMES and isinstance(value, dict):
            found[key] = {name: _bounded(one, most) for name, one in value.items()}
        else:
            found[key] = value if key in _VALUES else _bounded(value, most)
    kind = part.get("type")
    is_text = kind == "string" or (isinstance(kind, list) and "string" in kind)
    if is_text and not _BOUNDS & part.keys() and part.get("minLength", 0) <= most:
        found["maxLength"] = most
    return found
