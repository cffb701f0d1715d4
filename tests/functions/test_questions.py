"""Entries, pairs and objects that mean a JSON Schema become its text; all else stays what it is."""

import json

import pytest

from flightllm.functions.base import Entries, Literal
from flightllm.functions.questions import schema_text

_SCHEMA = Entries((("type", "object"), ("properties", Entries((("n", Entries((("type", "integer"),))),)))))


@pytest.mark.parametrize("value", [Entries((("city", "Where?"),)), (("city", "Where?"),)])
def test_questions(value: Literal) -> None:
    """A question becomes the description of a short text or null."""
    fields = json.loads(schema_text(value) or "")["properties"]
    assert fields == {"city": {"type": ["string", "null"], "description": "Where?"}}


@pytest.mark.parametrize(
    "value", [_SCHEMA, Entries((("schema", _SCHEMA),)), Entries((("type", "json"), ("schema", _SCHEMA)))]
)
def test_schemas(value: Literal) -> None:
    """A JSON Schema written as entries is itself, inside of Snowflake's object too."""
    assert json.loads(schema_text(value) or "") == {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.mark.parametrize(
    "value", [("a", "b"), (), None, 5, "a", Entries(()), Entries((("a", 1),)), (("a", " "), (" ", "b"))]
)
def test_no_schema(value: Literal) -> None:
    """Names, numbers and entries without questions mean none."""
    assert schema_text(value) is None
