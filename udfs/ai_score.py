"""ai_score: a rating of the given fields, by default from 0 to 10; low => and high => set another range.

Where the model's probabilities are known, the rating is their expected value. It ranks rows better than the most
probable number, which `expected => false` gives.
"""

from collections.abc import Mapping

from flightllm.functions import (
    CALIBRATE,
    CONFIDENCE,
    LABELS_OPTION,
    QUALITY,
    AICallError,
    AIFunction,
    Answer,
    Arguments,
    Entries,
    Kind,
    Option,
    Parameter,
    described,
    expected_number,
    number_answer,
    rating_answer,
)


def build(call: Arguments) -> Answer:
    """Ask for a number in the range; at temperature 0, the answer is the expected value of the model's numbers."""
    low, high = call.number("low"), call.number("high")
    anchors = _anchors(call.meanings("anchors"), low, high)
    asked = _asked(call, anchors, low, high)
    return expected_number(asked) if call.flag("expected") and not call.number("temperature") else asked


def _asked(call: Arguments, anchors: Mapping[str, str], low: float, high: float) -> Answer:
    if not anchors:
        return rating_answer(call.prompt, low, high)
    scale = f"Answer with a number from {low:g} to {high:g}."
    told = f"What the numbers mean:\n{described(anchors)}"
    answer = number_answer(f"{call.prompt}\n\n{told}\n\n{scale}", low, high)
    return answer.in_parts(call.prompt, task=f"Rate the record.\n\n{told}", reply=scale)


def _anchors(meanings: Mapping[str, str], low: float, high: float) -> Mapping[str, str]:
    """Return the meanings of numbers, in rising order."""
    numbers: dict[float, str] = {}
    for text, meaning in meanings.items():
        try:
            number = float(text)
        except ValueError as error:
            raise AICallError(f"anchors give meanings to numbers, and {text!r} is not a number") from error
        if not low <= number <= high:
            raise AICallError(f"the anchor {text} is not between low => {low:g} and high => {high:g}")
        if number in numbers:
            raise AICallError(f"two anchors give a meaning to {text}")
        numbers[number] = meaning
    return {_shown(number): numbers[number] for number in sorted(numbers)}


def _shown(number: float) -> str:
    return str(int(number)) if number.is_integer() else repr(number)


FUNCTION = AIFunction(
    name="ai_score",
    summary="Rate the given fields by a prompt, from low (0) to high (10); anchors => give meanings to numbers.",
    returns="double; struct<answer, confidence> with confidence => true",
    parameters=(Parameter("prompt", Kind.PROMPT),),
    fields=True,
    options=(
        Option("low", float, 0.0),
        Option("high", float, 10.0),
        Option("anchors", Entries),
        Option("expected", bool, default=True),
        CONFIDENCE,
        CALIBRATE,
        LABELS_OPTION,
        *QUALITY,
    ),
    build=build,
)
