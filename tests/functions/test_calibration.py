"""The examples of a call: which of them calibrate it, and what their answers decide."""

import numpy as np
import pytest

from flightllm.functions.calibration import helps_in_prompts, probabilities_of, with_change, with_shift
from flightllm.functions.call import AICall, Labelled
from flightllm.functions.confidence import joined
from flightllm.functions.shift_fit import Fit, Line, Shift
from flightllm.llm.engine import Choice
from tests.udfs.test_shipped_functions import call

FOUR = "examples => [('a', 'Yes'), ('b', 'No'), ('c', 'Yes'), ('d', 'No')]"


def test_examples_in_prompts() -> None:
    """Examples stay in the prompts only if the model is clearly better with them."""
    outside = Fit(None, 0.5, 0.7)
    assert helps_in_prompts(Fit(None, 0.25, 0.4), outside)
    assert not helps_in_prompts(Fit(None, 0.25, 0.68), outside)
    assert not helps_in_prompts(Fit(None, 0.5, 0.4), outside)


@pytest.mark.parametrize("options", ["", ", confidence => true"])
def test_the_answer_follows_the_offsets(options: str) -> None:
    """The value and its confidence are those of the shifted probabilities; unknown ones change nothing."""
    asked = call(f"ai_filter('x', a, {FOUR}{options})")
    shifts = with_shift(asked, Shift(1.0, (0.0, float(np.log(6.0)))))
    found = shifts.parse(joined("Yes", (0.7, 0.3)))
    confidence = 0.3 * 6 / (0.7 + 0.3 * 6)
    assert found == (False if not options else {"answer": False, "confidence": pytest.approx(confidence)})
    assert shifts.parse(joined("Yes", None)) == (True if not options else {"answer": True, "confidence": None})
    with pytest.raises(ValueError, match="expected one of Yes, No"):
        shifts.parse(joined("Maybe", (0.7, 0.3)))
    assert probabilities_of(asked).parse(joined("Yes", (0.7, 0.3))) == [0.7, 0.3]
    assert probabilities_of(asked).parse(joined("Yes", (0.7, 0.1))) == []


def labelled(asked: str) -> tuple[AICall, Labelled]:
    """Return a call and the examples that calibrate it."""
    found = call(asked)
    assert found.labelled is not None
    return found, found.labelled


def test_what_calibrates() -> None:
    """Each example becomes a question with the other examples before it, about the values of its fields."""
    asked, examples = labelled(f"ai_filter('x', a, {FOUR})")
    assert [one.wanted for one in examples.examples] == [0, 1, 0, 1]
    assert [one.values for one in examples.examples] == [("a",), ("b",), ("c",), ("d",)]
    for one, own in zip(examples.examples, "abcd", strict=True):
        told = [line for line in one.wording.instruction.splitlines() if line.startswith("a: ")]
        assert told == [f"a: {other}" for other in "abcd" if other != own]
    assert isinstance(asked.parameters.constraint, Choice)
    assert asked.parameters.probability
    assert "Examples" not in asked.worded(examples.without).instruction
    assert examples.scale == ()


def test_copies_of_an_example() -> None:
    """An example that is there twice is asked once. No prompt about an example has another one of its values."""
    _, examples = labelled(f"ai_filter('x', a, {FOUR[:-1]}, ('a', 'Yes'), ('b', 'Yes')])")
    assert [(one.values, one.wanted) for one in examples.examples] == [
        (("a",), 0),
        (("b",), 1),
        (("c",), 0),
        (("d",), 1),
        (("b",), 0),
    ]
    for one in examples.examples:
        assert f"a: {one.values[0]}" not in one.wording.instruction.splitlines()


def test_examples_that_rows_would_not_be() -> None:
    """An example without a value that rows must have is not asked. Values that rows would share are not told."""
    two = "examples => [({'a': 'x', 'b': 'y'}, 'Yes'), ({'a': 'z', 'b': NULL}, 'No'), ({'a': 'v', 'b': 'w'}, 'No')]"
    _, examples = labelled(f"ai_filter('q', a, b, {two})")
    assert [one.values for one in examples.examples] == [("x", "y"), ("v", "w")]
    alike = "normalize => 'case', examples => [('oak', 'Yes'), ('Oak', 'Yes'), ('OAK', 'No'), ('cat', 'No')]"
    _, examples = labelled(f"ai_filter('q', a, {alike})")
    assert [one.values for one in examples.examples] == [("oak",), ("OAK",), ("cat",)]
    assert [one.wording.instruction.lower().count("a: oak") for one in examples.examples] == [0, 0, 2]


@pytest.mark.parametrize(
    ("asked", "scale"),
    [
        ("ai_score('x', a, low => 1, high => 5, examples => [('a', 1), ('b', 3)])", (1, 2, 3, 4, 5)),
        (
            "ai_score('x', a, low => 1, high => 5, confidence => true, examples => [('a', 1), ('b', 2)])",
            (1, 2, 3, 4, 5),
        ),
        ("ai_score('x', a, expected => false, examples => [('a', 1), ('b', 2)])", ()),
        ("ai_classify(a, ['1', '2'], examples => [('a', '1'), ('b', '2')])", ()),
        ("ai_sentiment(a, examples => [('a', 'positive'), ('b', 'negative')])", ()),
    ],
)
def test_scales(asked: str, scale: tuple[float, ...]) -> None:
    """Numbers are a scale where their expected value is the answer."""
    assert labelled(asked)[1].scale == scale


@pytest.mark.parametrize("options", ["", ", confidence => true"])
def test_numbers_follow_a_line(options: str) -> None:
    """A rating moves along the line within the scale; its confidence and unknown probabilities change nothing."""
    asked = call(f"ai_score('x', a, low => 0, high => 4, examples => [('a', 1), ('b', 2)]{options})")
    moved = with_change(asked, Line(1.0, 0.5, 0.0, 4.0))
    found = moved.parse(joined("2", (0, 0.25, 0.5, 0.25, 0)))
    assert found == (2.0 if not options else {"answer": 2.0, "confidence": 0.5})
    found = moved.parse(joined("4", (0, 0, 0, 0.5, 0.5)))
    assert (found["answer"] if options else found) == 2.75
    found = moved.parse(joined("4", None))
    assert (found["answer"] if options else found) == 4


@pytest.mark.parametrize(
    "asked",
    [
        "ai_filter('x', a)",
        f"ai_filter('x', {FOUR})",
        f"ai_filter('x', a, {FOUR}, calibrate => 'off')",
        f"ai_filter('x', a, {FOUR}, temperature => 0.5)",
        "ai_filter('x', a, examples => [('a', 'Yes'), ('b', 'Yes')])",
        "ai_classify(a, ['u', 'v'], multi => true, examples => [('a', ['u']), ('b', ['v'])])",
        "ai_gen('x', a, examples => [('a', 'u'), ('b', 'v')])",
    ],
)
def test_what_does_not(asked: str) -> None:
    """Without examples of two options, with draws, and without a choice, nothing is asked besides the rows."""
    assert call(asked).labelled is None
