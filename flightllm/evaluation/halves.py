"""The split of labelled rows into two halves, and the draw of examples. Hashes decide, so that a rerun repeats."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from hashlib import blake2b
from itertools import chain, zip_longest
from typing import Any

from flightllm.evaluation.truth import Question

_PARTS = 4
"""The parts of equal size into which numbers are put, so that both halves have numbers of each."""


def choosing_half(question: Question, keys: Sequence[str], wanted: Sequence[Any]) -> list[bool]:
    """Return for each row whether it belongs to the half that chooses; the other half judges.

    Of the rows with the same label, each half has as many as the other, or one less. Rows with the same key are drawn
    apart: as one unit they would make the judged rows fewer than an interval of single rows needs.
    """
    seen = Counter[str]()
    own = list[str]()
    for key in keys:
        seen[key] += 1
        own.append(f"{seen[key]} {key}")
    chosen = set[str]()
    for group in _by_label(question, own, wanted):
        odd = _hashed(group[0])[-1] & len(group) & 1  # else a rare label would always be in one half
        chosen.update(group[: len(group) // 2 + odd])
    return [key in chosen for key in own]


def drawn_examples(
    question: Question, keys: Sequence[str], wanted: Sequence[Any], places: Iterable[int], number: int
) -> list[int]:
    """Return the places of up to `number` rows for examples, with all labels in turn; no two have the same key.

    `places` are the rows to draw from. A smaller number gives the first rows of a larger number.
    """
    by_key = dict[str, int]()
    for place in places:
        by_key.setdefault(keys[place], place)
    own = list(by_key)
    groups = _by_label(question, own, [wanted[by_key[key]] for key in own])
    turns = chain.from_iterable(zip_longest(*groups))
    return [by_key[key] for key in turns if key is not None][:number]


def _by_label(question: Question, keys: Sequence[str], wanted: Sequence[Any]) -> list[list[str]]:
    """Return the distinct keys by label, ordered by their hashes; a key with several labels counts for its first."""
    first = dict[str, Any]()
    for key, true in zip(keys, wanted, strict=True):
        first.setdefault(key, true)
    strata = _strata(question, first)
    groups = dict[Hashable, list[str]]()
    for key in sorted(first, key=_hashed):
        groups.setdefault(strata[key], []).append(key)
    return [groups[label] for label in sorted(groups, key=str, reverse=True)]


def _hashed(key: str) -> bytes:
    return blake2b(key.encode(), digest_size=16).digest()


def _strata(question: Question, labels: dict[str, Any]) -> dict[str, Hashable]:
    if question.kind == "numbers":
        ordered = sorted(labels, key=lambda key: (labels[key], key))
        return {key: place * _PARTS // len(ordered) for place, key in enumerate(ordered)}
    return {key: tuple(sorted(label)) if isinstance(label, frozenset) else label for key, label in labels.items()}
