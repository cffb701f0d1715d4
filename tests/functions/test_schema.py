"""JSON Schema to Arrow: types, checks, conversions and refusals."""

import json
from typing import Any

import pyarrow as pa
import pytest

from flightllm.engines.bounded_schema import MOST_TEXT
from flightllm.errors import AICallError
from flightllm.functions.schema import read_schema


def _object(**properties: Any) -> str:
    return json.dumps({"type": "object", "properties": properties, "required": list(properties)})


@pytest.mark.parametrize(
    ("schema", "type_"),
    [
        ({"type": "string"}, pa.string()),
        ({"type": ["integer", "null"]}, pa.int64()),
        ({"type": "number"}, pa.float64()),
        ({"type": "boolean"}, pa.bool_()),
        ({"enum": ["a", "b", None]}, pa.string()),
        ({"const": 3}, pa.int64()),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, pa.string()),
        ({"type": "array", "items": {"type": "integer"}}, pa.list_(pa.int64())),
        ({"properties": {"b": {"type": "string"}}}, pa.struct([("b", pa.string())])),
    ],
)
def test_types(schema: Any, type_: pa.DataType) -> None:
    """Each kind of schema becomes its Arrow type."""
    assert read_schema(_object(a=schema)).type == pa.struct([("a", type_)])


def test_references() -> None:
    """Local references, as Pydantic writes them, are followed."""
    schema = {
        "$defs": {"Place": {"type": "object", "properties": {"city": {"type": "string"}}}},
        "type": "object",
        "properties": {"home": {"$ref": "#/$defs/Place"}},
    }
    shape = read_schema(json.dumps(schema))
    assert shape.type == pa.struct([("home", pa.struct([("city", pa.string())]))])
    assert shape.parse('{"home": {"city": "Ulm"}}') == {"home": {"city": "Ulm"}}


def test_dict() -> None:
    """A schema as a dict means what its JSON text means."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "ö": {"enum": ["ü", None]}}}
    shape, written = read_schema(schema), read_schema(json.dumps(schema))
    assert (shape.text, shape.type, shape.max_tokens) == (written.text, written.type, written.max_tokens)
    assert shape.parse('{"n": 1, "ö": "ü"}') == {"n": 1, "ö": "ü"}


def test_names() -> None:
    """A list of names stands for an object of nullable texts."""
    shape = read_schema(["city", "zip"])
    assert shape.type == pa.struct([("city", pa.string()), ("zip", pa.string())])
    assert shape.parse('{"city": "Ulm", "zip": null}') == {"city": "Ulm", "zip": None}


def test_values_convert() -> None:
    """A valid answer becomes an Arrow value: whole floats integers, left-out properties NULL, code fences dropped."""
    text = (
        '{"type": "object", "properties": {"n": {"type": "integer"}, "x": {"type": "number"}, "o": {"type": "string"}}}'
    )
    shape = read_schema(text)
    value = shape.parse('```json\n{"n": 3.0, "x": 1}\n```')
    assert value == {"n": 3, "x": 1.0, "o": None}
    assert pa.array([value], type=shape.type).to_pylist() == [value]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"n": "x"}',
        '{"n": 1.5}',
        '{"n": NaN}',
        '{"n": 1, "more": 2}',
        "{}",
        '{"n": 99999999999999999999}',
        "[" * 100_000,
    ],
)
def test_invalid_answers(text: str) -> None:
    """An answer that does not follow the schema is refused with what was expected."""
    with pytest.raises(ValueError, match="expected"):
        read_schema(_object(n={"type": "integer"})).parse(text)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "must be a JSON object"),
        ('{"type": "nothing"}', "not a JSON Schema"),
        ('{"type": "object"}', r"object at \$ needs properties"),
        (_object(a={}), r"\$.a needs one type"),
        (_object(a={"type": ["string", "integer"]}), r"\$.a needs one type"),
        (_object(a={"type": "array"}), r"\$.a needs items"),
        (_object(a={"enum": [1, "x"]}), "one type"),
        (_object(a={"anyOf": [{"type": "string"}, {"type": "integer"}]}), "union"),
        (_object(a={"$ref": "#"}), "refers to"),
        (_object(a={"$ref": "https://example.org/schema"}), "refers to"),
        (_object(a={"type": "string", "allOf": [{"$ref": "https://example.org/schema"}]}), "refers to"),
        (_object(a={"$ref": "#/properties/a"}), "too deeply"),
        (_object(a={"type": "string", "allOf": [{"$ref": "#/properties/a"}]}), "refers to itself"),
        (_object(a={"type": "string", "allOf": [{"$id": "x"}]}), r"has '\$id'"),
        (_object(a={"properties": {"b": {"type": "string"}}, "patternProperties": {"^(a+)+$": True}}), "patternProp"),
        (_object(a={"type": "string", "pattern": "^(?=a)"}), "has look-around"),
        (_object(a={"type": "string", "pattern": "(a{500}){500}"}), "repeats too often"),
    ],
)
def test_unusable_schemas(schema: str, message: str) -> None:
    """A schema without an Arrow type is refused, saying where; nothing outside of it is ever fetched."""
    with pytest.raises(AICallError, match=message):
        read_schema(schema)


def test_objects_are_closed() -> None:
    """Every object refuses further properties; a property may be called `properties`."""
    shape = read_schema(_object(properties={"type": "string"}, inner={"properties": {"a": {"type": "string"}}}))
    closed = json.loads(shape.text)
    assert closed["additionalProperties"] is False
    assert closed["properties"]["inner"]["additionalProperties"] is False
    assert set(closed["properties"]) == {"properties", "inner"}


@pytest.mark.parametrize("answer", ['"a"', "1", "[]", "null"])
def test_properties_without_a_type_are_of_an_object(answer: str) -> None:
    """A schema that only lists properties takes nothing but an object, as its column is a struct."""
    shape = read_schema('{"properties": {"a": {"properties": {"b": {"type": "string"}}}}}')
    assert shape.parse('{"a": {"b": "c"}}') == {"a": {"b": "c"}}
    with pytest.raises(ValueError, match="'object'"):
        shape.parse(answer)
    with pytest.raises(ValueError, match="'object'"):
        shape.parse(f'{{"a": {answer}}}')


@pytest.mark.parametrize("leaf", [{"type": "string"}, {"type": "string", "allOf": [{"$ref": "#/$defs/n0"}]}])
def test_references_to_references(leaf: dict[str, Any]) -> None:
    """A short text that stands for billions of fields, or checks, is refused before any of them is made."""
    nested = {f"a{level}": _level(f"#/$defs/a{level + 1}") for level in range(12)} | {"a12": leaf}
    checks = {f"n{n}": {"allOf": [{"$ref": f"#/$defs/n{n + 1}"}] * 8} for n in range(12)} | {"n12": {}}
    start = "#/$defs/a0" if "allOf" not in leaf else "#/$defs/a12"
    with pytest.raises(AICallError, match=r"parts with every \$ref replaced; the limit is 1,000"):
        read_schema(json.dumps({"$defs": nested | checks, "properties": {"a": {"$ref": start}}}))


def _level(reference: str) -> dict[str, Any]:
    return {"properties": {f"p{place}": {"$ref": reference} for place in range(8)}}


def test_patterns() -> None:
    """A pattern is checked wherever it begins in a text, in time that grows with the text alone."""
    shape = read_schema('{"$id": "https://x/y", "type": "string", "pattern": "(a+)+$"}')
    assert shape.parse('"baa"') == "baa"
    with pytest.raises(ValueError, match="does not fit"):
        shape.parse(json.dumps("a" * 100_000 + "b"))


def test_keywords_are_names_too() -> None:
    """A property may be called as any keyword."""
    names = ["$id", "$ref", "pattern", "patternProperties", "$defs"]
    shape = read_schema(_object(**{name: {"type": "string"} for name in names}))
    assert shape.type == pa.struct([(name, pa.string()) for name in names])


def test_texts_cut_at_the_bound_that_is_sent() -> None:
    """A text that ends exactly at the bound that is sent was cut there; others, and bounds of its own, are right."""
    shape = read_schema(_object(a={"type": "string"}))
    for length in (MOST_TEXT - 1, MOST_TEXT + 1, 5 * MOST_TEXT):
        assert shape.parse(json.dumps({"a": "x" * length})) == {"a": "x" * length}
    with pytest.raises(ValueError, match=r"cut at 1,000 characters: give it a maxLength"):
        shape.parse(json.dumps({"a": "x" * MOST_TEXT}))
    for bound in ({"maxLength": MOST_TEXT}, {"maxLength": 4 * MOST_TEXT}):
        own = read_schema(_object(a={"type": "string", **bound}))
        assert own.parse(json.dumps({"a": "x" * MOST_TEXT})) == {"a": "x" * MOST_TEXT}


def test_named_fields_have_no_bound_of_their_own() -> None:
    """A field that has only a name holds a long quote in full, and an answer that was cut is an error."""
    shape = read_schema(["quote"])
    assert shape.parse(json.dumps({"quote": "x" * 700})) == {"quote": "x" * 700}
    with pytest.raises(ValueError, match="cut at 1,000 characters"):
        shape.parse(json.dumps({"quote": "x" * MOST_TEXT}))


def test_room_for_texts() -> None:
    """An answer has room for texts of the length that is sent; what keeps answers apart does not change."""
    shape = read_schema(_object(a={"type": "string"}, b={"type": "integer"}))
    assert shape.max_tokens == 64 + 2 * 64
    assert shape.room.of([]) > shape.max_tokens + 256
