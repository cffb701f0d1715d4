"""Scores: a number in a range."""

from math import floor

from training.passages.base import Passage
from training.phrases import Writer
from training.tasks.base import Example
from training.tasks.rows import refer, row_of

RANGES = ((0, 10), (0, 5), (1, 5), (1, 10), (0, 100), (0, 1))


def ask_score(writer: Writer, passage: Passage, scale: tuple[int, int] | None = None) -> Example | None:
    """Return a question for a rating on a scale, by default on any of the usual scales; None if there is no rating."""
    if not passage.ratings:
        return None
    rating = writer.rng.choice(passage.ratings)
    low, high = scale or writer.rng.choice(RANGES)
    value = low + rating.level * (high - low)
    answer = f"{value:.1f}" if high - low < 4 else str(floor(value + 0.5))
    prompt = refer(writer, rating.prompt, passage.column)
    options = () if (low, high) == (0, 10) else (("low", low), ("high", high))
    return Example("score", "ai_score", prompt, row_of(writer, passage), answer, options, marks=passage.marks)
