"""ai_dedup: the text that stands for all texts about the same thing, for GROUP BY and DISTINCT ON."""

import pyarrow as pa

from flightllm.functions import (
    AICallError,
    AIFunction,
    Answer,
    Arguments,
    Kind,
    Option,
    Parameter,
    SetAnswer,
    SetQuestion,
)
from flightllm.functions.same_entity import same_entity

_FIELDS = ("a", "b")
_RATES = ("precision", "recall", "confidence")


def build(call: Arguments) -> Answer:
    """Ask whether the texts of a pair are about the same thing, about pairs of similar texts only."""
    rates = [(name, _rate(call, name)) for name in _RATES]
    questions = {
        "pair": SetQuestion(same_entity(), _FIELDS),
        "again": SetQuestion(same_entity(reworded=True), _FIELDS),
    }
    blocking = call.text("blocking")
    options = (*rates, ("blocking", blocking))
    over = SetAnswer("dedup", questions, options, embeds=blocking == "meaning")
    return Answer("", pa.string(), str, over=over)


def _rate(call: Arguments, name: str) -> float:
    rate = call.number(name)
    if not 0 < rate <= 1 or (name == "confidence" and rate == 1):
        least = "above 0 and below 1" if name == "confidence" else "above 0, and at most 1"
        raise AICallError(f"{name} must be {least}, such as 0.95, and is {rate:g}")
    return rate


FUNCTION = AIFunction(
    name="ai_dedup",
    summary="Return the one spelling that stands for all texts of the rows that are about the same thing.",
    returns="text",
    parameters=(Parameter("text", Kind.FIELD),),
    options=(
        Option("precision", float, 0.95),
        Option("recall", float, 0.95),
        Option("confidence", float, 0.95),
        Option("blocking", str, "spelling", choices=("spelling", "meaning")),
    ),
    build=build,
)
