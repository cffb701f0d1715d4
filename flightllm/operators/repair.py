"""Ask once more where a model's answer is none of those that a call can use."""

from flightllm.functions.confidence import answer_alone
from flightllm.model.engine import Choice, Constraint, JsonSchema
from flightllm.model.prompt_formats import CUE
from flightllm.operators.rows import Reading, Said

_MOST_SHOWN = 1_000
"""Characters of an answer, and of options, that are told to the model again."""


def repair_prompt(prompt: str, said: Said, fault: str, constraint: Constraint) -> str:
    """Return the prompt that asks again: the first one, the answer to it, and what is wrong with that.

    It begins with the first prompt, of which an engine's prefix cache still has what it computed.
    """
    answer = answer_alone(said.text or "").strip()[:_MOST_SHOWN].replace("\n", "\n  ")
    wrong = f"This answer cannot be used: {fault}.\n{_wish(constraint)}"
    if prompt.endswith(f"\n{CUE}"):
        return f"{prompt} {answer}\n\n{wrong}\n{CUE}"
    return f"{prompt}\n\nYour answer was: {answer}\n{wrong}"


def repaired(first: Reading, second: Reading) -> Reading:
    """Return what a row gets after a second answer: that, or what was wrong with the first where there is none."""
    if second.failure is None:
        return second
    return first if second.fault is None else Reading(None, f"{second.failure} (asked twice)")


def _wish(constraint: Constraint) -> str:
    match constraint:
        case Choice(options) if len(told := ", ".join(options)) <= _MOST_SHOWN:
            return f"Answer again with exactly one of these, and nothing else: {told}"
        case Choice():
            return "Answer again with exactly one of the options above, and nothing else."
        case JsonSchema():
            return "Answer again with the JSON alone, as short as you can."
        case _:
            return "Answer again with the value alone, and nothing else."
