"""A schema without JSON, as SQL can write it: names of fields, each with the question that its value answers."""

import json
from collections.abc import Sequence

from flightllm.functions.base import Entries, Literal
from flightllm.functions.labels import as_json
from flightllm.functions.schema import NAMED_FIELD

_WRAPPED = ({"schema"}, {"type", "schema"})
"""The keys of an object that wraps a JSON Schema, as Snowflake and OpenAI write it."""


def schema_text(value: Literal) -> str | None:
    """Return the JSON Schema that entries describe, as text; None for other entries.

    `{'city': 'Where is it?'}` and `[['city', 'Where is it?']]` describe an object with a text or null for each
    question. `{'schema': {…}}`, and entries with `properties`, are a JSON Schema themselves.
    """
    if isinstance(value, Entries):
        given = dict(value.items)
        inner = given["schema"] if set(given) in _WRAPPED else value
        if isinstance(inner, Entries) and isinstance(dict(inner.items).get("properties"), Entries):
            return json.dumps(as_json(inner), ensure_ascii=False)
        return _asked(value.items)
    if isinstance(value, tuple) and value and all(isinstance(one, tuple) and len(one) == 2 for one in value):
        return _asked([(one[0], one[1]) for one in value if isinstance(one, tuple)])
    return None


def _asked(pairs: Sequence[tuple[Literal, Literal]]) -> str | None:
    names = [name.strip() for name, _ in pairs if isinstance(name, str)]
    asked = [question.strip() for _, question in pairs if isinstance(question, str)]
    if not (names and all((*names, *asked)) and len(names) == len(asked) == len(pairs) == len(set(names))):
        return None
    fields = {name: {**NAMED_FIELD, "description": question} for name, question in zip(names, asked, strict=True)}
    return json.dumps({"type": "object", "properties": fields, "required": names}, ensure_ascii=False)
