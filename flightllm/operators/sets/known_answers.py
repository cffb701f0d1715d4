"""The answers to a question that the answer cache has already."""

from collections.abc import Sequence
from typing import Any

from flightllm.functions.call import AICall
from flightllm.operators.batches import PromptBatch
from flightllm.operators.prompts import PromptLister
from flightllm.operators.rows import Response, read_answer
from flightllm.operators.sets.asker import Asker, Texts

_MOST_TUPLES = 4_096


def known_answers(asker: Asker, question: AICall, prompts: Sequence[Texts]) -> list[Any]:
    """Return the value of each prompt that the cache answers; None where it does not."""
    site, binding = asker.site(question), asker.binding(question)
    lister, found = PromptLister([site]), list[Any]([None] * len(prompts))
    for first in range(0, len(prompts), _MOST_TUPLES):
        batch = PromptBatch.of_texts(list(prompts[first : first + _MOST_TUPLES]))
        listed = lister.listed(batch, 0)
        known = binding.cache.peek([key for _, _, key in listed])
        for place, _, key in listed:
            if (text := known.get(key)) is not None:
                reading = read_answer(site.ai, Response(text))
                found[first + place] = None if reading.failure else reading.value
    return found
