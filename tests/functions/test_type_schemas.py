"""Types in the words of several dialects become JSON Schemas; what is no type with plain fields becomes none."""

import json

import pytest

from flightllm.functions.type_schemas import schema_of_columns, schema_of_type

_STRING, _NUMBER = {"type": "string"}, {"type": "number"}


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("STRUCT<city: STRING, rooms: INT>", {"city": _STRING, "rooms": {"type": "integer"}}),
        ("struct<city STRING, rooms INT64>", {"city": _STRING, "rooms": {"type": "integer"}}),
        ("STRUCT<answer: STRUCT<a: STRING, b: DOUBLE>>", {"a": _STRING, "b": _NUMBER}),
        ("STRUCT<a: ARRAY<STRING>, b: DECIMAL(10, 2)>", {"a": {"type": "array", "items": _STRING}, "b": _NUMBER}),
        ("STRUCT<a: STRING COMMENT 'The name, or none'>", {"a": {**_STRING, "description": "The name, or none"}}),
        ("TYPE OBJECT(a STRING, b ARRAY(NUMBER))", {"a": _STRING, "b": {"type": "array", "items": _NUMBER}}),
        ("OBJECT(a STRING NOT NULL)", {"a": _STRING}),
    ],
)
def test_types(text: str, properties: object) -> None:
    """Each field keeps its type; Databricks' outer field only names the schema."""
    schema = json.loads(schema_of_type(text) or "")
    assert schema["properties"] == properties
    assert schema["required"] == list(schema["properties"])


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("city STRING, rooms INT64", {"city": _STRING, "rooms": {"type": "integer"}}),
        (
            "city STRING OPTIONS(description = 'The city'), b ARRAY<STRUCT<x FLOAT64>>",
            {
                "city": {**_STRING, "description": "The city"},
                "b": {"type": "array", "items": {"type": "object", "properties": {"x": _NUMBER}, "required": ["x"]}},
            },
        ),
        ('a BOOL OPTIONS (description = "x, y")', {"a": {"type": "boolean", "description": "x, y"}}),
    ],
)
def test_columns(text: str, properties: object) -> None:
    """BigQuery's columns, with their descriptions."""
    assert json.loads(schema_of_columns(text) or "")["properties"] == properties


@pytest.mark.parametrize("text", ["ARRAY<STRING>", "STRUCT<a: MAP<STRING, STRING>>", "STRUCT<", "{}", "a", "INT", ""])
def test_no_schema(text: str) -> None:
    """A type without fields, or with a field that JSON Schema cannot say, has no schema."""
    assert schema_of_type(text) is None


@pytest.mark.parametrize("text", ["thing", "", "a STRING OPTIONS(strict = true), b INT64", "a STRING, b"])
def test_nothing_is_lost(text: str) -> None:
    """Columns of which a part cannot be read have no schema, rather than one with fewer columns."""
    assert schema_of_columns(text) is None
