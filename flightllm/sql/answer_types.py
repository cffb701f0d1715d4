"""The types of the answers of AI calls, as far as the text of a call tells them."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from flightllm.functions.call import ERROR_FIELDS
from flightllm.sql.nodes import Json, body, kind, name_of, text_of_literal

_TEXTS: Final = frozenset(
    {
        *("ai_classify", "ai_sentiment", "ai_mask", "ai_translate", "ai_summarize", "ai_fix_grammar"),
        *("ai_gen", "llm", "ai_complete", "ai_query"),
        *("ai_dedup", "ai_topic", "ai_cluster"),
    }
)
_SCHEMAS: Final = ("response_format", "schema", "labels", "returntype", "responseformat")
_SCALARS: Final = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}


def answer_type(name: str, function: Json) -> pa.DataType | None:
    """Return the type of the answer of an AI call; None for another function, or if the text does not tell it.

    A struct has the fields that the text names, or none if it names none.
    """
    if not name.startswith("ai_") and name not in _TEXTS:
        return None
    unnamed, named = _arguments(function)
    fields = ERROR_FIELDS.get(text_of_literal(named["on_error"]) or "") if "on_error" in named else None
    value = _value_type(name, unnamed, named)
    if fields is None:
        return value
    return pa.struct([(fields[0], pa.struct([]) if value is None else value), (fields[1], pa.string())])


def _value_type(name: str, unnamed: Sequence[Json], named: Mapping[str, Json]) -> pa.DataType | None:
    if name in {"ai_filter", "ai_match"}:
        return pa.bool_()
    if name not in _TEXTS and name != "ai_extract":
        return None
    if name == "ai_extract":
        given = named.get("schema", named.get("labels", unnamed[1] if len(unnamed) > 1 else None))
        return None if given is None else _of_schema(given)
    if name == "ai_classify":
        return pa.list_(pa.string()) if _is_true(named.get("multi")) else pa.string()
    given = next((named[one] for one in _SCHEMAS if one in named), None)
    return pa.string() if given is None else _of_schema(given)


def _arguments(function: Json) -> tuple[Sequence[Json], dict[str, Json]]:
    unnamed, named = list[Json](), dict[str, Json]()
    if kind(function["args"]) == "List":
        for one in body(function["args"])["args"]:
            fields = body(one)
            if kind(one) == "Unnamed" and kind(fields) == "Expr":
                unnamed.append(body(fields))
            elif kind(one) == "Named" and kind(fields["arg"]) == "Expr":
                named[name_of(fields["name"])] = body(fields["arg"])
    return unnamed, named


def _of_schema(given: Json) -> pa.DataType | None:
    """Return the type of an answer by a list of names, an object of names, or a JSON Schema."""
    if kind(given) == "Array":
        names = [text_of_literal(one) for one in body(given)["elem"]]
        return pa.struct([(name, pa.string()) for name in names if name is not None])
    text = text_of_literal(given)
    if text is None:
        return pa.struct([]) if kind(given) in {"Dictionary", "Map", "Function"} else None
    try:
        schema = json.loads(text)
    except ValueError:
        return None
    if isinstance(schema, list):
        return pa.struct([(str(name), pa.string()) for name in schema])
    if not isinstance(schema, dict):
        return None
    declared = schema.get("type")
    if isinstance(declared, str) and declared in _SCALARS:
        return _SCALARS[declared]
    if declared == "array":
        return pa.list_(pa.string())
    fields = schema.get("properties") if "properties" in schema else schema
    return pa.struct([(str(name), pa.string()) for name in fields]) if isinstance(fields, dict) else pa.struct([])


def _is_true(value: Json) -> bool:
    return kind(value) == "Value" and body(value)["value"] == {"Boolean": True}
