"""Entries, pairs and objects that mean a JSON Schema become its text; all else stays what it is."""

import json

import pyarrow as pa
import pytest

from flightllm.functions.base import Entries, Literal
from flightllm.functions.labels import read_json
from flightllm.functions.questions import ANY_OBJECT, PLAIN_TEXT, schema_text
from flightllm.functions.schema import read_schema

_SCHEMA = Entries((("type", "object"), ("properties", Entries((("n", Entries((("type", "integer"),))),)))))


@pytest.mark.parametrize("value", [Entries((("city", "Where?"),)), (("city", "Where?"),)])
def test_questions(value: Literal) -> None:
    """A question becomes the description of a short text or null."""
    fields = json.loads(str(schema_text(value)))["properties"]
    assert fields == {"city": {"type": ["string", "null"], "description": "Where?"}}


@pytest.mark.parametrize(
    "value", [_SCHEMA, Entries((("schema", _SCHEMA),)), Entries((("type", "json"), ("schema", _SCHEMA)))]
)
def test_schemas(value: Literal) -> None:
    """A JSON Schema written as entries is itself, inside of Snowflake's object too."""
    assert json.loads(str(schema_text(value))) == {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.mark.parametrize(
    "value", [("a", "b"), (), None, 5, "a", Entries(()), Entries((("a", 1),)), (("a", " "), (" ", "b"))]
)
def test_no_schema(value: Literal) -> None:
    """Names, numbers and entries without questions mean none."""
    assert schema_text(value) is None


_INNER = '{"type": "object", "properties": {"n": {"type": "integer"}}}'


@pytest.mark.parametrize(
    "wrapped",
    [
        f'{{"type": "json_schema", "json_schema": {{"name": "x", "strict": true, "schema": {_INNER}}}}}',
        f'{{"type": "json_schema", "json_schema": {{"name": "x", "schema": {_INNER}}}}}',
        f'{{"type": "json_schema", "name": "x", "strict": true, "schema": {_INNER}}}',
        f'{{"json_schema": {{"schema": {_INNER}}}}}',
        f'{{"type": "json", "schema": {_INNER}}}',
        f'{{"schema": {_INNER}}}',
    ],
)
def test_wrapped(wrapped: str) -> None:
    """The schema inside the objects of OpenAI, Databricks and Snowflake counts, as a text and as entries."""
    for value in (wrapped, read_json(wrapped)):
        assert json.loads(str(schema_text(value))) == json.loads(_INNER)


def test_plain_schema_stays() -> None:
    """A text with a JSON Schema stays as it is, whatever its properties are called."""
    named = '{"type": "object", "properties": {"schema": {"type": "string"}, "json_schema": {"type": "string"}}}'
    assert schema_text(_INNER) is schema_text(named) is None


@pytest.mark.parametrize(("text", "form"), [("json_object", ANY_OBJECT), ("json", ANY_OBJECT), ("text", PLAIN_TEXT)])
def test_without_properties(text: str, form: str) -> None:
    """The forms without a schema mean any object, or a plain text."""
    assert schema_text(f'{{"type": "{text}"}}') == schema_text(Entries((("type", text),))) == form


def test_fields_with_types() -> None:
    """Databricks' form of a schema gives each field a type, and a field can be null."""
    text = """{"city": {"type": "string", "description": "Where?"}, "kind": {"type": "enum", "labels": ["a", "b"]},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}}"""
    properties = json.loads(str(schema_text(text)))["properties"]
    assert properties["city"] == {"type": ["string", "null"], "description": "Where?"}
    assert properties["kind"] == {"enum": ["a", "b", None]}
    assert properties["lines"]["items"]["properties"] == {"n": {"type": ["integer", "null"]}}
    assert read_schema(str(schema_text(text))).type.field("lines").type.value_type.field("n").type == pa.int64()


def test_names_in_json() -> None:
    """A list of names in JSON text is the list, and a type is its schema."""
    assert schema_text('["a", "b"]') == ("a", "b")
    assert json.loads(str(schema_text("STRUCT<n: INT>")))["properties"] == {"n": {"type": "integer"}}
