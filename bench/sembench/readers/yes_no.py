"""A yes/no question about one review, such as "Is the review clearly positive?"."""

from __future__ import annotations

from collections.abc import Mapping

from bench.sembench.question import Question


def yes_no(question: Question) -> Mapping[str, float] | None:
    """Answer yes where the review has the sentiment that the question asks for."""
    if question.yes_no is None or question.wants_positive is None or len(question.reviews) != 1:
        return None
    yes, no = question.yes_no
    holds = question.reviews[0].positive == question.wants_positive
    return {yes: float(holds), no: float(not holds)}
