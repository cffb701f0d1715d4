"""Ask once more if a call cannot use the model's answer."""

from flightllm.functions.confidence import answer_alone
from flightllm.llm.engine import Choice, Constraint, JsonSchema
from flightllm.llm.prompt_formats import CUE
from flightllm.operators.rows import Reading, Response

_MOST_SHOWN = 1_000
"""Characters of an answer, and of the options, that the second prompt repeats."""


def repair_prompt(prompt: str, response: Response, fault: str, constraint: Constraint) -> str:
    """Return the prompt that asks again: the first prompt, its answer, and the reason why that is unusable.

    It begins with the first prompt, so that the engine's prefix cache still covers this part.
    """
    answer = answer_alone(response.text or "").strip()[:_MOST_SHOWN].replace("\n", "\n  ")
    wrong = f"This answer cannot be used: {fault}.\n{_wish(constraint)}"
    if prompt.endswith(f"\n{CUE}"):
        return f"{prompt} {answer}\n\n{wrong}\n{CUE}"
    return f"{prompt}\n\nYour answer was: {answer}\n{wrong}"


def repaired(first: Reading, second: Reading) -> Reading:
    """Return the second answer if it is usable, otherwise why the first was not."""
    if second.failure is None:
        return second
    return first if second.fault is None else Reading(None, f"{second.failure} (asked twice)")


def _wish(constraint: Constraint) -> str:
    match constraint:
        case Choice(options) if len(listed := ", ".join(options)) <= _MOST_SHOWN:
            return f"Answer again with exactly one of these, and nothing else: {listed}"
        case Choice():
            return "Answer again with exactly one of the options above, and nothing else."
        case JsonSchema():
            return "Answer again with the JSON alone, as short as you can."
        case _:
            return "Answer again with the value alone, and nothing else."
