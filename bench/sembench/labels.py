"""The reviews of SemBench with their hidden labels: the sentiment, and a score from 1 to 5."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as pc

FOLDER: Final = "sembench_movie"
LOWEST, HIGHEST = 1.0, 5.0
_LETTERS: Final = {"A": 4.7, "B": 3.7, "C": 2.7, "D": 1.7, "E": 1.0, "F": 1.0}
_OF: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:/|\bof\b|\bout of\b)\s*(\d+(?:\.\d+)?)\s*")
_LETTER: Final = re.compile(r"\s*([A-F])\s*([+-]?)\s*")
_STEP: Final = 0.3
_UNRATED: Final = {True: 4.0, False: 2.0}
"""The score of a review without a score of its own, by its sentiment."""


@dataclass(frozen=True, slots=True)
class Review:
    """One review: its text, whether it is positive, and its score from 1 to 5."""

    text: str
    positive: bool
    stars: float

    def mirrored(self) -> Review:
        """Return the review as a reader understands it who takes it for its opposite."""
        return replace(self, positive=not self.positive, stars=LOWEST + HIGHEST - self.stars)


def files(data: Path) -> Mapping[str, Path]:
    """Return the files of the two tables in the folder of all data.

    Raises:
        FileNotFoundError: a file is missing.
    """
    found = {name: data / FOLDER / f"{name}.csv" for name in ("Movies", "Reviews")}
    for path in found.values():
        if not path.is_file():
            raise FileNotFoundError(f"no table {path}; set FLIGHTLLM_DATA to a folder with {FOLDER}/{path.name}")
    return found


def table(path: Path) -> pa.Table:
    """Read a CSV file. Scores are read as texts: they have several forms."""
    return pc.read_csv(
        path,
        parse_options=pc.ParseOptions(newlines_in_values=True),
        convert_options=pc.ConvertOptions(column_types={"originalScore": pa.string()}),
    )


def reviews(found: pa.Table) -> Sequence[Review]:
    """Return the distinct reviews of a table. Equal texts have one label: that of the first."""
    kept: dict[str, Review] = {}
    columns = (found[name].to_pylist() for name in ("reviewText", "scoreSentiment", "originalScore"))
    for text, sentiment, score in zip(*columns, strict=True):
        if text:
            positive = sentiment == "POSITIVE"
            kept.setdefault(text, Review(text, positive, stars(score, positive=positive)))
    return list(kept.values())


def stars(score: str | None, *, positive: bool) -> float:
    """Return a critic's own score on the scale from 1 to 5: `3/5` is 3, `7/10` is 3.5, `B+` is 4.

    A score below 1 is 1. A review without a score has 4 if it is positive, else 2.
    """
    text = score or ""
    if (of := _OF.fullmatch(text)) and float(of[2]):
        return _bounded(HIGHEST * float(of[1]) / float(of[2]))
    if letter := _LETTER.fullmatch(text):
        return _bounded(_LETTERS[letter[1]] + {"+": _STEP, "-": -_STEP, "": 0.0}[letter[2]])
    return _UNRATED[positive]


def two_labels(found: pa.Table) -> Mapping[str, Sequence[Any]]:
    """Return the texts whose rows differ in sentiment: no reader of texts can be right about all of these rows."""
    labels: dict[str, set[Any]] = {}
    for text, label in zip(found["reviewText"].to_pylist(), found["scoreSentiment"].to_pylist(), strict=True):
        labels.setdefault(text, set()).add(label)
    return {text: sorted(some) for text, some in labels.items() if len(some) > 1}


def by_text(known: Iterable[Review]) -> Mapping[str, Review]:
    """Return reviews by their texts."""
    return {one.text: one for one in known}


def _bounded(value: float) -> float:
    return min(HIGHEST, max(LOWEST, value))
