"""The questions of functions that judge a record: is a statement true, and how high is it on a scale?"""

import pyarrow as pa

from flightllm.functions.answers import choice_answer, number_answer
from flightllm.functions.base import Answer

_QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e")
"""Question marks of Latin, Chinese and Japanese, Arabic, and Greek script."""


def yes_or_no_answer(prompt: str) -> Answer:
    """Ask for Yes or No; any other answer is an error, so a filter is never true by accident."""
    answer = choice_answer(
        f"{prompt}\n\nAnswer Yes if this is so, otherwise No.", {"Yes": True, "No": False}, pa.bool_()
    )
    is_question = prompt.rstrip().endswith(_QUESTION_MARKS)
    question = prompt if is_question else f"Statement: {prompt}\nIs the statement true?"
    return answer.in_parts(question, task="Check the record.", reply="Answer Yes or No.")


def rating_answer(prompt: str, low: float, high: float) -> Answer:
    """Ask for a number from `low` to `high`."""
    scale = f"Answer with a number from {low:g} (not at all) to {high:g} (fully)."
    return number_answer(f"{prompt}\n\n{scale}", low, high).in_parts(prompt, task="Rate the record.", reply=scale)
