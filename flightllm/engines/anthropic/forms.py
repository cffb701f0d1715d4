"""Express constraints as parameters of the Messages API: a format of the answer, a forced tool, or words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from flightllm.engines.openai.strict import rooted
from flightllm.engines.openai.wire import ConstraintForm, forms, schema_of
from flightllm.llm.engine import Constraint, JsonSchema

FORMAT: Final = "output_config.format"
"""The key of the format, with the path to it in the request's body."""
_TOOL: Final = "answer"
_MORE_TOKENS: Final = 32
_SHORT: Final = 240
"""The most characters of words that cost less than a JSON object: each prompt has them after the cached start."""
_DROPPED: Final = frozenset(
    {
        *("$schema", "$id", "title", "default", "examples", "additionalProperties", "uniqueItems"),
        *("minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("maxItems", "minProperties", "maxProperties", "contains"),
    }
)
"""Keywords that a format rejects; the whole schema checks the answer anyway."""
_KEPT_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
_NAMES: Final = frozenset({"properties", "$defs", "definitions"})


@lru_cache(maxsize=1_024)
def claude_forms(constraint: Constraint, ways: tuple[str, ...]) -> tuple[ConstraintForm, ...]:
    """Return the forms of a constraint, the best first: those of `ways` (`format`, `tool`), and words."""
    if constraint is None:
        return tuple(forms(None, (), chat=True))
    schema, wrapped = schema_of(constraint)
    schema, inner = rooted(schema)
    wrapped = wrapped or inner
    more = _MORE_TOKENS * wrapped
    known = {
        "format": ConstraintForm(
            "format",
            {FORMAT: {"type": "json_schema", "schema": format_schema(schema)}},
            wrapped=wrapped,
            more_tokens=more,
        ),
        "tool": ConstraintForm(
            "tool",
            {
                "tools": [{"name": _TOOL, "description": "Gives the answer.", "input_schema": schema}],
                "tool_choice": {"type": "tool", "name": _TOOL, "disable_parallel_tool_use": True},
            },
            wrapped=wrapped,
            enforced=True,
            more_tokens=_MORE_TOKENS,
        ),
    }
    found = [known[way] for way in ways if way in known]
    [words] = forms(constraint, ("words",), chat=True)
    if isinstance(constraint, JsonSchema) or not found or len(words.words) > _SHORT:
        return (*found, words)
    # A label in words costs a fifth of a JSON object with the label. Whatever breaks the words gets the next form, and
    # a model that often breaks them gets only that form.
    return (replace(words, enforced=True), *found)


def format_schema(part: Any) -> Any:
    """Return a JSON Schema with only the keywords that a format takes.

    Example: {"type": "integer", "minimum": 1} becomes {"type": "integer"}.
    """
    if isinstance(part, list):
        return [format_schema(one) for one in part]
    if not isinstance(part, dict):
        return part
    found: dict[str, Any] = {}
    for key, value in part.items():
        if (
            key in _DROPPED
            or (key == "format" and value not in _KEPT_FORMATS)
            or (key == "minItems" and value not in {0, 1})
        ):
            continue
        if key in _NAMES and isinstance(value, dict):
            found[key] = {name: format_schema(one) for name, one in value.items()}
        else:
            found["anyOf" if key == "oneOf" else key] = value if key in {"enum", "const"} else format_schema(value)
    if "properties" in found or found.get("type") == "object":
        found |= {"properties": found.get("properties", {}), "additionalProperties": False}
    return _plain_types(found)


def _plain_types(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part with one type in place of a list of types: each of them becomes a variant."""
    kinds = part.get("type")
    if not isinstance(kinds, list) or "enum" in part or "anyOf" in part:
        return {key: value for key, value in part.items() if key != "type"} if isinstance(kinds, list) else part
    rest = {key: value for key, value in part.items() if key not in {"type", "description"}}
    told = {key: part[key] for key in ("description",) if key in part}
    variants = [{"type": "null"} if kind == "null" else {"type": kind, **rest} for kind in kinds]
    return {**told, "anyOf": variants}


def schema_text(body: Mapping[str, Any]) -> Sequence[Any]:
    """Return the parts of a form's keys that the model reads before the prompt; they begin what a cache keeps."""
    return [body[key] for key in (FORMAT, "tools") if key in body]
