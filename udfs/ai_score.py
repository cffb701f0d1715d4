"""ai_score: a rating of the given fields, from 0 to 10 unless low => and high => say otherwise."""

from flightllm.functions import CONFIDENCE, AIFunction, Answer, Arguments, Kind, Option, Parameter, number_answer


def build(call: Arguments) -> Answer:
    """Ask for a number in the range."""
    low, high = call.number("low"), call.number("high")
    scale = f"Answer with a number from {low:g} (not at all) to {high:g} (fully)."
    answer = number_answer(f"{call.prompt}\n\n{scale}", low, high)
    return answer.in_parts(call.prompt, task="Rate the record.", reply=scale)


FUNCTION = AIFunction(
    name="ai_score",
    summary="Rate the given fields by a prompt, from low (0) to high (10).",
    returns="double; struct<answer, confidence> with confidence => true",
    parameters=(Parameter("prompt", Kind.PROMPT),),
    fields=True,
    options=(Option("low", float, 0.0), Option("high", float, 10.0), CONFIDENCE),
    build=build,
)
