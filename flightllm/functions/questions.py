"""A schema in the forms in which SQL and other vendors write it: names, questions, types, and wrapped JSON Schemas."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from flightllm.functions.base import Entries, Literal
from flightllm.functions.labels import as_json, read_json
from flightllm.functions.schema import NAMED_FIELD
from flightllm.functions.type_schemas import schema_of_type

ANY_OBJECT = '{"type":"json_object"}'
"""The schema of a JSON object with any properties; its value is the JSON text."""
PLAIN_TEXT = '{"type":"text"}'
"""The schema of an answer without a form."""
_WRAPPED = ({"schema"}, {"type", "schema"}, {"name", "schema"}, {"name", "schema", "strict"})
"""The keys of an object that wraps a JSON Schema, as Snowflake and OpenAI write it."""
_OF_FIELD = {"type", "description", "items", "properties", "labels", "enum", "required", "format"}
"""The keys of a field in Databricks' form of a schema: `{"city": {"type": "string", "description": "…"}}`."""


def schema_text(value: Literal) -> str | tuple[str, ...] | None:
    """Return the JSON Schema that a constant describes, as text; or the names of a list in JSON text; else None.

    `{'city': 'Where is it?'}` and `[['city', 'Where is it?']]` describe an object with a text or null for each
    question. `{'schema': {…}}`, and entries with `properties`, are a JSON Schema themselves. So is the inner schema of
    OpenAI's `{"type": "json_schema", "json_schema": {"name": …, "schema": {…}}}`. A text can be JSON of these forms, or
    a type such as `STRUCT<city: STRING>`. See `ANY_OBJECT` and `PLAIN_TEXT` for the forms without properties.
    """
    if isinstance(value, str):
        return schema_of_type(value) or _of_json(read_json(value))
    if isinstance(value, Entries):
        return _of_entries(value)
    if isinstance(value, tuple) and value and all(isinstance(one, tuple) and len(one) == 2 for one in value):
        return _asked([(one[0], one[1]) for one in value if isinstance(one, tuple)])
    return None


def _of_json(value: Literal) -> str | tuple[str, ...] | None:
    if isinstance(value, Entries):
        given = dict(value.items)
        is_schema = isinstance(given.get("type"), str | tuple) and "json_schema" not in given and "schema" not in given
        if is_schema and given["type"] not in {"json_object", "json", "text"}:
            return None  # it is a JSON Schema as it stands
        return _of_entries(value)
    if isinstance(value, tuple) and value and all(isinstance(one, str) for one in value):
        return tuple(one for one in value if isinstance(one, str))
    return None


def _of_entries(value: Entries) -> str | None:
    inner = _unwrapped(value)
    given = dict(inner.items)
    if isinstance(given.get("properties"), Entries):
        return json.dumps(as_json(inner), ensure_ascii=False)
    if set(given) == {"type"} and given["type"] in {"json_object", "json", "text"}:
        return PLAIN_TEXT if given["type"] == "text" else ANY_OBJECT
    return _described(as_json(inner)) or _asked(inner.items)


def _unwrapped(value: Entries) -> Entries:
    """Return the innermost object, without the objects that only wrap a schema."""
    given = dict(value.items)
    if isinstance(inner := given.get("json_schema"), Entries):
        return _unwrapped(inner)
    wraps = given.get("type") == "json_schema" or set(given) in _WRAPPED
    return inner if wraps and isinstance(inner := given.get("schema"), Entries) else value


def _described(fields: Any) -> str | None:
    """Return the JSON Schema of Databricks' form; None for another form."""
    if not isinstance(fields, Mapping) or not fields or not all(map(_is_field, fields.values())):
        return None
    properties = {name: _field(field) for name, field in fields.items()}
    return json.dumps({"type": "object", "properties": properties, "required": list(properties)}, ensure_ascii=False)


def _is_field(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("type"), str) and _OF_FIELD.issuperset(value)


def _field(field: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a field, which can be null where the text does not state it."""
    told = {"description": field["description"]} if isinstance(field.get("description"), str) else {}
    kind = field["type"]
    if kind == "enum" or "labels" in field:
        return {"enum": [*(field.get("labels") or field.get("enum") or ()), None], **told}
    if kind == "array" and _is_field(field.get("items")):
        return {"type": ["array", "null"], "items": _field(field["items"]), **told}
    inner = field.get("properties")
    if kind == "object" and isinstance(inner, Mapping) and all(map(_is_field, inner.values())):
        properties = {name: _field(one) for name, one in inner.items()}
        return {"type": ["object", "null"], "properties": properties, "required": list(properties), **told}
    return {**field, "type": [kind, "null"]} if kind != "null" else dict(field)


def _asked(pairs: Sequence[tuple[Literal, Literal]]) -> str | None:
    names = [name.strip() for name, _ in pairs if isinstance(name, str)]
    asked = [question.strip() for _, question in pairs if isinstance(question, str)]
    if not (names and all((*names, *asked)) and len(names) == len(asked) == len(pairs) == len(set(names))):
        return None
    fields = {name: {**NAMED_FIELD, "description": question} for name, question in zip(names, asked, strict=True)}
    return json.dumps({"type": "object", "properties": fields, "required": names}, ensure_ascii=False)
