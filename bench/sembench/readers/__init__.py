"""The forms of prompts that the labelled model can read, one in each file.

A reader is a function from a question to the probability of each option, or None for a question of another form.
To add a form, write a file, and put its function into `READERS`: the first reader with an answer counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from bench.sembench.question import Question
from bench.sembench.readers.comparison import comparison
from bench.sembench.readers.label import label
from bench.sembench.readers.pair import pair
from bench.sembench.readers.proposal import proposal
from bench.sembench.readers.rating import rating
from bench.sembench.readers.yes_no import yes_no

Reader = Callable[[Question], Mapping[str, float] | None]
DocumentReader = Callable[[Question, Mapping[str, Any]], Mapping[str, Any] | None]
READERS: Final[tuple[Reader, ...]] = (rating, pair, comparison, yes_no, label)
DOCUMENT_READERS: Final[tuple[DocumentReader, ...]] = (proposal,)
"""Readers of questions whose answer is a whole document: from the question and its schema to the document."""
