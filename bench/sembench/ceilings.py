"""The best scores that answers from the labels can have: the labels' own ceiling of each question."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.sembench.gold import Rows
from bench.sembench.labels import by_text, files, reviews, table, two_labels
from bench.sembench.metrics import ranked


def ceilings(data: Path, right: Mapping[str, Rows]) -> Mapping[str, float]:
    """Return the ceilings.

    Q1 to Q8 compare sentiments, which are the labels themselves: 1, unless rows of one text have two labels. In Q9, a
    score below 1 is out of the scale. In Q10, the right scores are those of the audience, not of the critics.
    """
    found = table(files(data)["Reviews"])
    sentiments = 1.0 if not two_labels(found) else float("nan")
    scores = dict.fromkeys([f"Q{number}" for number in range(1, 9)], sentiments)
    return {**scores, **_of_scores(found, right, lambda value: value)}


def whole_numbers(data: Path, right: Mapping[str, Rows]) -> Mapping[str, float]:
    """Return the ceilings of Q9 and Q10 for a model that answers whole numbers, without probabilities."""
    return _of_scores(table(files(data)["Reviews"]), right, lambda value: float(int(value + 0.5)))


def _of_scores(found: pa.Table, right: Mapping[str, Rows], given: Callable[[float], float]) -> Mapping[str, float]:
    known = by_text(reviews(found))
    columns = (found[name].to_pylist() for name in ("id", "reviewId", "reviewText"))
    rows = [(film, number, given(known[text].stars)) for film, number, text in zip(*columns, strict=True) if text]
    films: dict[Any, list[float]] = {}
    for film, _, value in rows:
        films.setdefault(film, []).append(value)
    results = {
        "Q9": [(number, value) for _, number, value in rows],
        "Q10": [(film, statistics.fmean(values)) for film, values in films.items()],
    }
    return {name: ranked(some, right[name])["score"] for name, some in results.items()}
