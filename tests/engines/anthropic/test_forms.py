"""Constraints as parameters of the Messages API."""

import json

from flightllm.engines.anthropic.forms import FORMAT, claude_forms, format_schema
from flightllm.llm.engine import Choice, JsonSchema, Regex
from tests.messages_api import check_schema

WAYS = ("format", "tool")


def test_a_choice() -> None:
    """A choice is asked for in words, which cost least; else it is an object with one of the options."""
    words, formed, tool = claude_forms(Choice(("yes", "no")), WAYS)
    schema = formed.body[FORMAT]["schema"]
    assert schema["properties"]["answer"] == {"type": "string", "enum": ["yes", "no"]}
    assert tool.body["tools"][0]["input_schema"]["properties"] == schema["properties"]
    assert tool.body["tool_choice"]["name"] == tool.body["tools"][0]["name"]
    assert formed.wrapped
    assert tool.wrapped
    assert not words.body


def test_no_constraint() -> None:
    """A free text needs no form."""
    [form] = claude_forms(None, WAYS)
    assert not form.body


def test_a_pattern() -> None:
    """A regular expression stays a pattern."""
    formed = claude_forms(Regex("[0-9]+"), WAYS)[1]
    assert formed.body[FORMAT]["schema"]["properties"]["answer"]["pattern"] == "^(?:[0-9]+)$"


def test_schemas_that_a_format_takes() -> None:
    """Keywords that a format rejects are left out at any depth; objects take no further keys."""
    schema = {
        "type": "object",
        "title": "T",
        "properties": {
            "title": {"type": "string", "maxLength": 12},
            "years": {"type": "array", "items": {"type": "integer", "minimum": 0}, "maxItems": 3, "minItems": 2},
            "who": {"type": ["string", "null"], "minLength": 1, "description": "a name"},
            "inner": {"type": "object", "properties": {"a": {"oneOf": [{"type": "null"}, {"const": 1}]}}},
            "day": {"type": "string", "format": "date"},
            "code": {"type": "string", "format": "made-up"},
        },
        "required": ["title"],
    }
    found = format_schema(schema)
    check_schema(found)
    assert found["properties"]["who"] == {"description": "a name", "anyOf": [{"type": "string"}, {"type": "null"}]}
    assert found["properties"]["day"] == {"type": "string", "format": "date"}
    assert found["properties"]["code"] == {"type": "string"}
    assert found["required"] == ["title"]
    assert claude_forms(JsonSchema(json.dumps(schema)), WAYS)[0].wrapped is False


def test_a_list_gets_a_root() -> None:
    """A schema that is not an object is put into one."""
    formed, tool, _ = claude_forms(JsonSchema('{"type": "array", "items": {"type": "string"}}'), WAYS)
    assert formed.wrapped
    assert tool.body["tools"][0]["input_schema"]["type"] == "object"
