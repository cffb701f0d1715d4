"""The benchmark's own measures of quality, by the rules of its evaluator for films.

Source: `src/scenario/movie/evaluation/evaluate.py` and `src/evaluator/generic_evaluator.py` of SemBench/SemBench at
GitHub. Each function takes the rows of a result and the right rows. Names of columns do not count, only places.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from bench.sembench.gold import Rows

Quality = Mapping[str, float]


def retrieved(rows: Rows, right: Rows, limit: int) -> Quality:
    """Compare the first values of at most `limit` rows: any right ones count."""
    return _overlap({row[0] for row in rows[:limit]}, {row[0] for row in right}, limit)


def paired(rows: Rows, right: Rows, limit: int | None = None) -> Quality:
    """Compare pairs without their direction, so a pair that comes twice counts once.

    With `limit`, any right pairs among the first rows count.
    """
    found, wanted = ({(row[0], *sorted(row[1:3])) for row in some} for some in (rows[:limit], right))
    return _overlap(found, wanted, limit)


def counted(rows: Rows, right: Rows) -> Quality:
    """Compare one number: 1 minus the relative error."""
    if len(rows) != 1 or rows[0][0] is None:
        return {"relative_error": 1.0, "score": 0.0}
    wanted = float(right[0][0])
    error = abs(float(rows[0][0]) - wanted)
    return _of_error(error / abs(wanted) if wanted else float(error > 0))


def counted_by_label(rows: Rows, right: Rows) -> Quality:
    """Compare a number for each label: the mean of the relative errors. A label that should not be there has 1."""
    found, wanted = ({str(label).strip().upper(): float(count) for label, count in some} for some in (rows, right))
    errors = [
        abs(found.get(label, 0.0) - wanted[label]) / wanted[label] if wanted.get(label) else 1.0
        for label in found.keys() | wanted.keys()
    ]
    return _of_error(sum(errors) / len(errors) if errors and found else 1.0)


def ranked(rows: Rows, right: Rows) -> Quality:
    """Return Spearman's correlation of two scores over the names that both have."""
    found, wanted = ({name: value for name, value in some if value is not None} for some in (rows, right))
    both = sorted(found.keys() & wanted.keys())
    value = spearman([found[name] for name in both], [wanted[name] for name in both])
    return {"spearman": value, "score": value}


def spearman(some: Collection[float], others: Collection[float]) -> float:
    """Return the correlation of the ranks, where equal values share their mean rank; 0 where one side is constant."""
    ranks = [_ranks(np.asarray(list(values), dtype=float)) for values in (some, others)]
    if any(len(one) == 0 or np.ptp(one) == 0 for one in ranks):
        return 0.0
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    means: np.ndarray[Any, Any] = (2 * ends - counts + 1) / 2
    return means[places]


def _overlap(found: Collection[Any], wanted: Collection[Any], limit: int | None) -> Quality:
    right = len(set(found) & set(wanted))
    enough = len(wanted) if limit is None else min(limit, len(wanted))
    precision = right / len(found) if found else float(not wanted)
    recall = right / enough if enough else 0.0
    both = precision + recall
    f1 = 2 * precision * recall / both if both else 0.0
    return {"precision": precision, "recall": recall, "f1": f1, "score": f1}


def _of_error(error: float) -> Quality:
    return {"relative_error": error, "score": 1 - error}


METRICS: Final[Mapping[str, Callable[[Rows, Rows], Quality]]] = {
    "Q1": partial(retrieved, limit=5),
    "Q2": partial(retrieved, limit=5),
    "Q3": counted,
    "Q4": counted,
    "Q5": partial(paired, limit=10),
    "Q6": partial(paired, limit=10),
    "Q7": paired,
    "Q8": counted_by_label,
    "Q9": ranked,
    "Q10": ranked,
}
"""The measure of each question; `score` is the figure that the benchmark's tables show."""
