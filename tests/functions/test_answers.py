"""Common answers: what they constrain to, and what their parsers take and refuse."""

import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flightllm.errors import AICallError
from flightllm.functions import (
    Answer,
    Arguments,
    Choice,
    Regex,
    Usual,
    choice_answer,
    described,
    json_answer,
    number_answer,
    text_answer,
    vector_of,
)


def test_text() -> None:
    """Text is stripped; nothing is an error."""
    answer = text_answer("x")
    assert answer.parse(" a b\n") == "a b"
    with pytest.raises(ValueError, match="got nothing"):
        answer.parse(" \n")


@pytest.mark.parametrize(("text", "value"), [("Yes", True), (" yes.", True), ("**No**", False), ("NO\n", False)])
def test_choice(text: str, value: bool) -> None:
    """An option is known without regard to case and wrapping punctuation."""
    assert choice_answer("x", {"Yes": True, "No": False}, pa.bool_()).parse(text) is value


@pytest.mark.parametrize("text", ["", "Yes, but no", "Yesterday", "true", "Not", "Yes No", "1"])
def test_choice_never_by_accident(text: str) -> None:
    """Text that merely begins with or contains an option is refused."""
    with pytest.raises(ValueError, match="expected one of Yes, No"):
        choice_answer("x", {"Yes": True, "No": False}, pa.bool_()).parse(text)


def test_choice_among_similar_options() -> None:
    """Options that differ only in case match exactly."""
    parse = choice_answer("x", ["US", "us"]).parse
    assert (parse("US"), parse("us")) == ("US", "us")
    with pytest.raises(ValueError, match="expected one of"):
        parse("Us")


@pytest.mark.parametrize(
    ("low", "high", "first", "count"), [(0, 10, "0", 11), (1, 5, "1", 5), (0, 1, "0.0", 11), (-2, 2, "-2", 5)]
)
def test_number_choices(low: float, high: float, first: str, count: int) -> None:
    """Small ranges are choices, each of which parses into the range."""
    answer = number_answer("x", float(low), float(high))
    assert isinstance(answer.constraint, Choice)
    assert (answer.constraint.options[0], len(answer.constraint.options)) == (first, count)
    values = [answer.parse(option) for option in answer.constraint.options]
    assert (min(values), max(values)) == (low, high)


@pytest.mark.parametrize("type_", [int, float, Decimal, Fraction, np.int64, np.float32])
def test_number_of_any_type(type_: Callable[[int], Any]) -> None:
    """A function in a user's own file can pass the limits as any type of number."""
    answer, same = number_answer("x", type_(1), type_(5)), number_answer("x", 1.0, 5.0)
    assert (answer.constraint, answer.parse("3")) == (same.constraint, 3.0)
    assert number_answer("x", type_(0), type_(1_000)).constraint == number_answer("x", 0.0, 1_000.0).constraint


def test_number_pattern() -> None:
    """Other ranges are bounded by a pattern."""
    assert number_answer("x", -1000.5, 2.0).constraint == Regex("-?[0-9]{1,4}(\\.[0-9]{1,4})?")


@pytest.mark.parametrize("text", ["11", "-1", "nan", "inf", "ten", "", "1 2"])
def test_number_out_of_range(text: str) -> None:
    """A number outside of the range, or none, is refused."""
    with pytest.raises(ValueError, match="expected a number from 0 to 10"):
        number_answer("x", 0.0, 10.0).parse(text)


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (2.0, 1.0), (0.0, math.inf), (math.nan, 1.0)])
def test_number_needs_a_range(low: float, high: float) -> None:
    """An empty or endless range is the caller's error."""
    with pytest.raises(AICallError, match=r"low|high"):
        number_answer("x", low, high)


ARGUMENTS = Arguments("x", {"words": "8", "style": None})
WRONG: dict[str, Callable[[Any], object]] = {
    "low must be a number such as 0 or 2.5, not '1'": lambda _: number_answer("x", "1", 5),  # type: ignore[arg-type]
    "high must be a number such as 0 or 2.5, not None": lambda n: number_answer("x", 1, n),
    "low must be a number such as 0 or 2.5, not False": lambda _: number_answer("x", False, True),
    "high must be a finite number, not 1000": lambda _: number_answer("x", 0, 10**400),
    "high must be a finite number, not inf": lambda _: number_answer("x", 0, math.inf),
    "the options must be a list of texts such as ['yes', 'no'], not 'yes'": lambda _: choice_answer("x", "yes"),
    "the options must be a list of texts such as ['yes', 'no'], not None": lambda n: choice_answer("x", n),
    "there are no options": lambda _: choice_answer("x", []),
    "each option must be a text, not 1; write str(1)": lambda _: choice_answer("x", [1, 2]),  # type: ignore[list-item]
    "a value of the options is not of type string": lambda _: choice_answer("x", {"yes": True, "no": False}),
    "a value of the options is not of type int8": lambda _: choice_answer("x", {"many": 1_000}, pa.int8()),
    "the output must be an Arrow type such as pa.string(), not 'int'": lambda _: choice_answer("x", {"one": 1}, "int"),
    "the schema is not JSON (Object of type set": lambda _: json_answer("x", {"enum": {"a"}}),
    "the schema is not a JSON Schema: 'words' is not valid": lambda _: json_answer("x", {"type": "words"}),
    "the schema must be a text, a dict or a list of field names such as ['city'], not None": lambda n: json_answer(
        "x", n
    ),
    "each field name of the schema must be a text, not 1": lambda _: json_answer("x", [1]),  # type: ignore[list-item]
    "the instruction must be a text, not None": text_answer,
    "max_tokens must be a whole number from 1 on, not 0": lambda _: text_answer("x", max_tokens=0),
    "max_tokens must be a whole number from 1 on, not 1.5": lambda _: Answer(
        "x",
        pa.string(),
        str,
        max_tokens=1.5,  # type: ignore[arg-type]
    ),
    "described needs a mapping such as {'urgent': 'needs an answer today'}, not ['a']": lambda _: described(
        ["a"]  # type: ignore[arg-type]
    ),
    "the function has no argument 'wrods'; it has words, style": lambda _: ARGUMENTS.integer("wrods"),
    "words is '8', and the function reads it as a whole number": lambda _: ARGUMENTS.integer("words"),
    "style needs a value": lambda _: ARGUMENTS.text("style"),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments(message: str) -> None:
    """The author of a function learns which argument is wrong, and what to write."""
    with pytest.raises(AICallError, match=re.escape(message)):
        WRONG[message](None)


@pytest.mark.parametrize("text", [None, "!", "AAA="])
def test_no_vector(text: Any) -> None:
    """What is not an encoded vector is refused by one error."""
    with pytest.raises(ValueError, match="expected the text of an encoded vector; got"):
        vector_of(text)


def test_values_are_arrow_values() -> None:
    """Parsed answers make an Arrow array of the declared type."""
    answers: list[tuple[Any, list[str]]] = [
        (number_answer("x", 0.0, 10.0), ["3", "4.5"]),
        (choice_answer("x", {"Yes": True, "No": False}, pa.bool_()), ["Yes", "No"]),
    ]
    for answer, texts in answers:
        assert len(pa.array([answer.parse(text) for text in texts], type=answer.output)) == len(texts)


@pytest.mark.parametrize(("low", "high"), [(0, 1000), (0, 101), (1, 5000), (-500, 1000), (-1000, -7), (95, 1234)])
def test_a_wide_range_has_no_number_outside(low: int, high: int) -> None:
    """The pattern of a wide range fits each number in it, with decimals too, and none beside it."""
    constraint = number_answer("x", float(low), float(high)).constraint
    assert isinstance(constraint, Regex)
    for number in range(low - 150, high + 150):
        assert bool(re.fullmatch(constraint.pattern, str(number))) == (low <= number <= high)
        decimal = f"{number}.75" if number >= 0 else f"{number + 1 or '-0'}.25"
        assert bool(re.fullmatch(constraint.pattern, decimal)) == (low <= float(decimal) <= high)


def test_unusual_types() -> None:
    """A number of numpy limits tokens, and a struct that pyarrow cannot convert at once is a type of options."""
    limited = text_answer("x", max_tokens=np.int64(5))  # type: ignore[arg-type]
    assert type(limited.max_tokens) is int
    choice_answer("x", {"a": {"x": "1"}}, pa.struct([("x", pa.json_())]))


def test_usual_length() -> None:
    """A usual length grows with the bytes of the values, up to its bound."""
    usual = Usual(4, per_byte=0.5, most=10)
    assert usual.of([("text", "abcd")]) == 6
    assert usual.of([("text", "ää")]) == 6
    assert usual.of([("a", "x" * 10), ("b", "y" * 10)]) == 10
    assert text_answer("x").usual == Usual(20)
