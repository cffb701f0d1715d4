"""One question of a prompt, as the labelled model understands it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.sembench.form import listed
from bench.sembench.labels import Review

_OPPOSITE: Final = re.compile(
    r"\b(opposite|opposing|different|differs?|disagree|contrary|contrasting|conflicting"
    r"|not (?:share|express|have) the same)"
)
_SAME: Final = re.compile(r"\b(same|agree|equal|alike|identical|similar|match)\b")
_POSITIVE: Final = re.compile(
    r"\b(positive\w*|favou?rable|likes?|liked|enjoys?|enjoyed|recommends?|praises?|good|fresh)\b"
)
_NEGATIVE: Final = re.compile(r"\b(negative\w*|unfavou?rable|dislikes?|disliked|hates?|criticis|pans?|bad|rotten)\b")


@dataclass(frozen=True, slots=True)
class Question:
    """The words of a question, the reviews of the question as the model understands them, and the options.

    `words` are those of the prompt, in small letters, without the texts of the reviews.
    """

    words: str
    reviews: Sequence[Review]
    options: tuple[str, ...]

    @property
    def wants_opposite(self) -> bool | None:
        """Return whether a pair must differ, or agree; None where the words ask for neither."""
        if _OPPOSITE.search(self.words):
            return True
        return False if _SAME.search(self.words) else None

    @property
    def wants_positive(self) -> bool | None:
        """Return whether a positive review is asked for, or a negative one: the first of both words counts."""
        positive, negative = _POSITIVE.search(self.words), _NEGATIVE.search(self.words)
        if positive is None or negative is None:
            return None if positive is negative else negative is None
        return positive.start() < negative.start()

    @property
    def yes_no(self) -> tuple[str, str] | None:
        """Return the options for yes and for no; None for other options."""
        found = listed(self.options)
        for yes, no in (("yes", "no"), ("true", "false")):
            if found.keys() == {yes, no}:
                return found[yes], found[no]
        return None


def polarity(option: str) -> bool | None:
    """Return whether a label names a positive sentiment, or a negative one; None for other labels."""
    words = option.strip().lower()
    if words in {"pos", "neg", "+", "-"}:
        return words in {"pos", "+"}
    positive, negative = bool(_POSITIVE.search(words)), bool(_NEGATIVE.search(words))
    return positive if positive != negative else None
