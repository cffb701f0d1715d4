"""Common answers: what they constrain to, and what their parsers take and refuse."""

import math
import re
from typing import Any

import pyarrow as pa
import pytest

from flightllm.errors import AICallError
from flightllm.functions import Choice, Regex, Usual, choice_answer, number_answer, text_answer


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
    with pytest.raises(AICallError, match="low"):
        number_answer("x", low, high)


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


def test_usual_length() -> None:
    """A usual length grows with the bytes of the values, up to its bound."""
    usual = Usual(4, per_byte=0.5, most=10)
    assert usual.of([("text", "abcd")]) == 6
    assert usual.of([("text", "ää")]) == 6
    assert usual.of([("a", "x" * 10), ("b", "y" * 10)]) == 10
    assert text_answer("x").usual == Usual(32)
