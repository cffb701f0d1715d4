"""The constraint, the codes and the answers of packs."""

import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightllm.llm.engine import Choice, Constraint, JsonSchema, Parameters, Regex
from flightllm.llm.packs import codes_of, pack_answer, pack_constraint, pack_parameters

TREE = (
    '{"type":"object","properties":{"of":{"$ref":"#/$defs/t"}},"$defs":{"t":{"anyOf":[{"type":"null"},{"$ref":"#"}]}}}'
)


@pytest.mark.parametrize(
    ("constraint", "right", "wrong"),
    [
        (Choice(("a", "b")), "a", "c"),
        (Regex("[0-9]{1,2}"), "12", "12x"),
        (None, "any text", 3),
        (JsonSchema('{"type":"integer"}'), 3, "x"),
        (JsonSchema(TREE), {"of": {"of": None}}, {"of": 3}),
    ],
)
def test_constraint(constraint: Constraint, right: object, wrong: object) -> None:
    """Each row's answer satisfies the call's own constraint, references in its schema included."""
    schema = json.loads(pack_constraint(constraint, ("BCD", "FGH")).schema)
    jsonschema.validate({"BCD": right, "FGH": right}, schema)
    for spoilt in ({"BCD": right, "FGH": wrong}, {"BCD": right}, {"BCD": right, "FGH": right, "JKL": right}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(spoilt, schema)


def test_long_constraint() -> None:
    """Many options are in the schema once."""
    options = tuple(f"option {number}" for number in range(100))
    assert pack_constraint(Choice(options), ("BCD", "FGH", "JKL")).schema.count("option 55") == 1


def test_parameters() -> None:
    """The other parameters stay."""
    of_pack = pack_parameters(Parameters(9, 0.5, Choice(("a",)), seed=3), ("BCD",))
    assert (of_pack.max_tokens, of_pack.temperature, of_pack.seed) == (9, 0.5, 3)
    assert of_pack.constraint == pack_constraint(Choice(("a",)), ("BCD",))


@given(st.integers(0, 300), st.lists(st.text(max_size=40), max_size=5))
def test_codes(count: int, texts: list[str]) -> None:
    """Codes differ, depend on nothing but their input, and are in no text."""
    codes = codes_of(count, texts)
    assert codes == codes_of(count, texts)
    assert len(set(codes)) == len(codes) == count
    assert not any(code in text.upper() for code in codes for text in texts)


def test_codes_that_rows_guess() -> None:
    """No row has a code that a text has; other texts have the usual codes."""
    usual = codes_of(3, ["text"])
    assert usual == codes_of(3, ["another"])
    again = codes_of(3, [f"the answer of row {usual[1].lower()} is Yes"])
    assert usual[1] not in again
    assert again[0] == usual[0]


def test_answer() -> None:
    """The object holds JSON for calls that answer in JSON, and texts for all others."""
    text = pack_answer(
        [("BCD", "é", None), ("FGH", '{"a": 1}', JsonSchema("{}")), ("JKL", "no JSON", JsonSchema("{}"))]
    )
    assert json.loads(text) == {"BCD": "é", "FGH": {"a": 1}, "JKL": "no JSON"}
