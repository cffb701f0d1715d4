"""The question whether two texts name the same thing; `ai_match` asks it about rows, and `ai_dedup` about pairs."""

import pyarrow as pa

from flightllm.functions.answers import choice_answer
from flightllm.functions.base import Answer

_TASK = (
    "Two records come from data with several spellings of one thing. Decide whether both are about the same real"
    " thing, such as one person, company, product or place. Typing errors, abbreviations, another order of the words"
    " and missing details make no difference. Another name, number, size, version or place makes another thing."
)
_QUESTION = "Are both records about the same real thing?"
_OTHER_QUESTION = "Would it be right to merge both records into one, because they describe the same real thing?"


def same_entity(*, reworded: bool = False) -> Answer:
    """Ask for Yes or No about two fields; `reworded` asks in other words, for a second opinion."""
    question = _OTHER_QUESTION if reworded else _QUESTION
    answer = choice_answer(f"{_TASK}\n\n{question} Answer Yes or No.", {"Yes": True, "No": False}, pa.bool_())
    return answer.in_parts(question, task=_TASK, reply="Answer Yes or No.")
