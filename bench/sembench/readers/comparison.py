"""A comparison of two reviews: the one that has more of a sentiment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bench.sembench.form import listed
from bench.sembench.question import Question

_REVIEWS: Final = 2
_NAMES: Final = (("a", "b"), ("1", "2"), ("first", "second"))
_EVEN: Final = 0.5


def comparison(question: Question) -> Mapping[str, float] | None:
    """Name the review with the higher score; the lower one where the question asks for a negative property."""
    if len(question.reviews) != _REVIEWS:
        return None
    found = listed(question.options)
    for first, second in _NAMES:
        if found.keys() == {first, second}:
            one, other = (review.stars for review in question.reviews)
            if question.wants_positive is False:
                one, other = other, one
            chance = _EVEN if one == other else float(one > other)
            return {found[first]: chance, found[second]: 1 - chance}
    return None
