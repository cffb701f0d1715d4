"""Answer `ai_dedup`: find the texts about the same thing.

1. Texts that differ only in white space or in the form of their Unicode are one text.
2. Blocking finds pairs of similar texts, at most two for each text on average.
3. A cascade accepts and rejects pairs by their similarity where a certificate allows it; the model decides the others.
4. Pairs that are the same connect texts into groups. A pair on which a group hangs is asked again.
5. Each group keeps one of its texts.
"""

import unicodedata
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from flightllm.errors import InternalError
from flightllm.operators.sets.asker import Asker
from flightllm.operators.sets.base import Failure, SetValues
from flightllm.operators.sets.bridge_check import checked
from flightllm.operators.sets.candidates import Pairs, best_pairs, similar_pairs
from flightllm.operators.sets.components import components, kept_of
from flightllm.operators.sets.near_vectors import near_pairs
from flightllm.operators.sets.one_text import texts_of
from flightllm.operators.sets.pair_verdicts import PairMethod, PairVerdicts, decided

_PAIRS_PER_TEXT: Final = 2
CALLS_PER_TEXT: Final = 3
"""A set of n texts sends at most three times n prompts."""
_NEIGHBOURS: Final = 5
"""A text gets so many candidates; if it has more duplicates, they find it through each other."""
_LEAST_SIMILARITY: Final = 0.3
_FEW: Final = 5
"""Of so few texts, all pairs are asked: there are at most two for each text."""


def answers(values: SetValues, asker: Asker) -> Sequence[Any]:
    """Return for each text the text that its group keeps, or a failure where a pair of it got no answer."""
    given = texts_of(values)
    forms = [form_of(text) for text in given]
    weights: dict[str, int] = {}
    shown: dict[str, tuple[int, int, str]] = {}
    for text, form, weight in zip(given, forms, values.weights.tolist(), strict=True):
        weights[form] = weights.get(form, 0) + weight
        rank = (-weight, len(text), text)  # the shortest, because a longer one has superfluous white space
        shown[form] = min(shown.get(form, rank), rank)
    names = sorted(weights)
    texts = [shown[name][2] for name in names]
    found = _groups(texts, np.array([weights[name] for name in names], np.int64), asker)
    by_form = dict(zip(names, found, strict=True))
    return [by_form[form] for form in forms]


def form_of(text: str) -> str:
    """Return the text without differences that have no meaning: white space, and forms of the same characters."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _groups(texts: Sequence[str], weights: NDArray[np.int64], asker: Asker) -> list[str | Failure]:
    over = asker.call.over
    if over is None:
        raise InternalError("ai_dedup is a call over a set")
    count = len(texts)
    pairs = _candidates(texts, asker, by_meaning=over.option("blocking") == "meaning")
    rates = (float(over.option(name)) for name in ("precision", "recall", "confidence"))
    method = PairMethod(over.questions, *rates)
    verdicts = decided(pairs, texts, method, asker)
    left = CALLS_PER_TEXT * count - verdicts.calls
    verdicts = checked(verdicts, texts, method, asker, left)
    same = verdicts.same
    groups = components(count, pairs.left[same], pairs.right[same])
    _note(asker, texts, groups, verdicts)
    kept: list[str | Failure] = list(kept_of(groups, texts, weights))
    for pair, error in verdicts.errors.items():
        one, other = int(pairs.left[pair]), int(pairs.right[pair])
        if groups[one] != groups[other]:
            kept[one] = kept[other] = Failure(error)
    return kept


def _candidates(texts: Sequence[str], asker: Asker, *, by_meaning: bool) -> Pairs:
    """Return the pairs of texts that can be the same, the most similar ones first."""
    count = len(texts)
    most = _PAIRS_PER_TEXT * count
    least = 0.0 if count <= _FEW else _LEAST_SIMILARITY
    pairs = similar_pairs(texts, most, _NEIGHBOURS, least, asker.cancelled)
    if not by_meaning or count <= _FEW:
        return pairs
    near = near_pairs(texts, _NEIGHBOURS, asker)
    together = Pairs(
        np.concatenate([pairs.left, near.left]),
        np.concatenate([pairs.right, near.right]),
        np.concatenate([pairs.scores, near.scores]),
    )
    together = together.part(np.lexsort((-together.scores, together.right, together.left)))
    fresh = np.ones(len(together), bool)
    fresh[1:] = (together.left[1:] != together.left[:-1]) | (together.right[1:] != together.right[:-1])
    return best_pairs(together.part(fresh), count, most, 2 * _NEIGHBOURS)


def _note(asker: Asker, texts: Sequence[str], groups: NDArray[np.int64], verdicts: PairVerdicts) -> None:
    """Tell EXPLAIN the steps."""
    number = len(np.unique(groups))
    told = (
        f"{len(texts):,} texts; {len(verdicts.pairs):,} pairs by blocking; {verdicts.told};"
        f" {number:,} groups, the largest of {int(np.bincount(groups).max()):,} texts"
    )
    asker.counters.note(0, 0, steps=told)
