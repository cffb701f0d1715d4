"""A question for the property of single reviews that decides a condition about pairs of them, as one document."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from bench.sembench.question import Question

_NAMES: Final = frozenset({"possible", "left_question", "right_question", "labels", "relation"})
_CONDITION: Final = re.compile(r"^condition: (.+)$", re.MULTILINE)
_QUESTION: Final = "Is the sentiment of the review positive or negative?"


def proposal(question: Question, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Propose the sentiment, where the condition is that two reviews have the same one, or opposite ones."""
    if not schema.get("properties", {}).keys() >= _NAMES:
        return None
    condition = _CONDITION.search(question.words)
    opposite = Question(condition[1], (), ()).wants_opposite if condition else None
    return {
        "possible": opposite is not None,
        "left_question": _QUESTION,
        "right_question": _QUESTION,
        "labels": ["positive", "negative"],
        "relation": "different" if opposite else "same",
        "unmatched": [],
    }
