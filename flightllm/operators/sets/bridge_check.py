"""Check the pairs on which groups hang: one wrong pair would make two groups one."""

from collections.abc import Sequence

import numpy as np

from flightllm.operators.sets.asker import Asker
from flightllm.operators.sets.components import bridges, components
from flightllm.operators.sets.pair_verdicts import PairMethod, PairVerdicts, said


def checked(
    verdicts: PairVerdicts, texts: Sequence[str], method: PairMethod, asker: Asker, most_calls: int
) -> PairVerdicts:
    """Ask again about each bridge of the graph of pairs, the least similar one first, with at most `most_calls` calls.

    A bridge that the model called the same is asked with its texts in the other order. If the answers differ, a third
    question in other words decides. A bridge that was accepted by its similarity is asked once, unless it is a whole
    group by itself: the certificate covers that one. A check that gets no answer changes nothing.

    Raises:
        FlightLLMError: as `Asker.ask`.
    """
    pairs = verdicts.pairs
    edges = np.flatnonzero(verdicts.same)
    if not len(edges):
        verdicts.told += "; no group to check"
        return verdicts
    left, right = pairs.left[edges], pairs.right[edges]
    groups = components(len(texts), left, right)
    sizes = np.bincount(groups, minlength=len(texts))
    weak = bridges(len(texts), left, right) & (verdicts.asked[edges] | (sizes[groups[left]] > 2))
    found = edges[weak]
    found = found[np.lexsort((found, pairs.scores[found]))]
    first = found[:most_calls]
    most_calls -= len(first)
    doubted: list[int] = []
    answers = said(pairs, first, texts, method, asker, question="pair", turned=True)
    for unit, answer in zip(first.tolist(), answers, strict=True):
        if answer is False:
            doubted.append(unit)
    third = np.array(doubted[:most_calls], np.int64)
    kept = said(pairs, third, texts, method, asker, question="again", turned=False)
    cut = third[[answer is not True for answer in kept]] if len(third) else third
    verdicts.same[cut] = False
    verdicts.calls += len(first) + len(third)
    verdicts.told += f"; {len(first):,} of {len(found):,} weak pairs checked, {len(cut):,} of them cut"
    return verdicts
