"""A question about two reviews: whether their sentiments are the same, or opposite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bench.sembench.form import listed
from bench.sembench.question import Question

_REVIEWS: Final = 2


def pair(question: Question) -> Mapping[str, float] | None:
    """Answer yes where the two reviews agree or differ as asked, or name the option that says so."""
    if len(question.reviews) != _REVIEWS:
        return None
    differs = question.reviews[0].positive != question.reviews[1].positive
    if question.yes_no is not None and question.wants_opposite is not None:
        yes, no = question.yes_no
        holds = differs == question.wants_opposite
        return {yes: float(holds), no: float(not holds)}
    found = listed(question.options)
    for same, opposite in (("same", "opposite"), ("same", "different"), ("agree", "disagree")):
        if found.keys() == {same, opposite}:
            return {found[same]: float(not differs), found[opposite]: float(differs)}
    return None
