"""Texts of a schema that is sent are bounded; all else stays as it is."""

import json

import pytest

from flightllm.engines.bounded_schema import MOST_TEXT, bounded
from flightllm.engines.openai.wire import forms
from flightllm.llm.engine import JsonSchema


@pytest.mark.parametrize(
    "part",
    [
        {"type": "string", "maxLength": 5},
        {"type": "string", "enum": ["a"]},
        {"type": "string", "pattern": "a+"},
        {"type": "string", "format": "date"},
        {"type": "string", "minLength": 5_000},
        {"enum": [{"type": "string"}]},
        {"type": "integer"},
        {"type": "object", "properties": {"type": {"const": "string"}}},
    ],
)
def test_unchanged(part: object) -> None:
    """What has a bound, or is no text, is sent as it was written."""
    text = json.dumps({"type": "object", "properties": {"a": part}})
    assert bounded(text) is text


@pytest.mark.parametrize("type_", ["string", ["string", "null"]])
def test_bounded(type_: object) -> None:
    """A text without a bound has one, at any depth."""
    text = {"type": type_}
    schema = {"$defs": {"t": text}, "properties": {"a": {"type": "array", "items": {"anyOf": [text]}}, "type": text}}
    sent = {**text, "maxLength": MOST_TEXT}
    assert json.loads(bounded(json.dumps(schema))) == {
        "$defs": {"t": sent},
        "properties": {"a": {"type": "array", "items": {"anyOf": [sent]}}, "type": sent},
    }


@pytest.mark.parametrize("way", ["structured", "schema"])
def test_sent(way: str) -> None:
    """Endpoints get the bounded schema in each form that has one."""
    [form] = forms(JsonSchema('{"type":"string"}'), [way], chat=True)
    assert f"'maxLength': {MOST_TEXT}" in str(form.body)
