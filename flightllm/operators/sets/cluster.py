"""Answer `ai_cluster`: group the vectors of the texts, and let the model name each group by its most central texts."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from flightllm.errors import InternalError
from flightllm.operators.sets.asker import Asker
from flightllm.operators.sets.base import Failure, SetValues
from flightllm.operators.sets.kmeans import clusters
from flightllm.operators.sets.late_questions import excerpts
from flightllm.operators.sets.near_vectors import vectors_of
from flightllm.operators.sets.one_text import texts_of
from flightllm.operators.sets.room import fitting

_SHOWN, _CHARACTERS = 12, 240
"""The texts by which the model names a cluster, and the characters of each."""
_NO_VECTOR: Final = "the embedding model gave no vector"


def answers(values: SetValues, asker: Asker) -> Sequence[Any]:
    """Return the name of each text's cluster; equal names of several clusters get numbers."""
    over = asker.call.over
    if over is None:
        raise InternalError("ai_cluster is a call over a set")
    texts = texts_of(values)
    found: list[Any] = [Failure(_NO_VECTOR)] * len(texts)
    every = vectors_of(texts, asker)
    there = np.flatnonzero(np.einsum("ij,ij->i", every, every) > 0)
    if not len(there):
        return found
    numbers, far = clusters(every[there], int(over.option("k")), asker.cancelled)
    order = np.lexsort((there, far, numbers))
    starts = np.searchsorted(numbers[order], np.arange(int(numbers.max()) + 2))
    members = [[texts[there[place]] for place in order[first:last]] for first, last in pairwise(starts)]
    question = over.questions["name"]
    fits = fitting(question, asker.binding(question))
    replies = asker.ask(question, [(excerpts(some, _SHOWN, _CHARACTERS, fits),) for some in members])
    names: list[Any] = []
    used: dict[str, int] = {}
    for reply in replies:
        if reply.value is None:
            names.append(Failure(reply.error or "the model gave no name"))
            continue
        name = " ".join(str(reply.value).split()).strip(" .\"'*") or str(reply.value)
        used[name.casefold()] = used.get(name.casefold(), 0) + 1
        names.append(name if used[name.casefold()] == 1 else f"{name} ({used[name.casefold()]})")
    for place, number in zip(there.tolist(), numbers.tolist(), strict=True):
        found[place] = names[number]
    sizes = np.bincount(numbers)
    told = f"{len(there):,} texts in {len(sizes):,} clusters of {int(sizes.min()):,} to {int(sizes.max()):,} texts"
    asker.counters.note(0, 0, steps=told)
    return found
