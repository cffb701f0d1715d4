"""Simulated oracles and proxies, and a loop that answers a cascade's questions."""

from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np

from flightllm.quality.filter_cascade import FilterCascade
from flightllm.quality.label_cascade import LabelCascade
from flightllm.quality.targets import Targets


@dataclass(frozen=True)
class Outcome:
    """The rates that a recount finds, and the share of units asked."""

    recall: float
    precision: float
    accuracy: float
    share: float
    cascade: FilterCascade


def plausible(missed: int, runs: int, delta: float) -> bool:
    """Return whether a chance of at most `delta` gives as many misses in one of twenty sets of runs, or more often."""
    return sum(comb(runs, k) * delta**k * (1 - delta) ** (runs - k) for k in range(missed, runs + 1)) > 0.05


def calibrated(rows: int, prevalence: float, sharpness: float, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return scores that are the true probability of yes, and answers drawn from them."""
    logits = np.log(prevalence / (1 - prevalence)) + sharpness * rng.normal(size=rows)
    scores = 1 / (1 + np.exp(-logits))
    return scores, (rng.random(rows) < scores).astype(np.int8)


def filtered(scores: Any, answers: Any, targets: Targets, seed: int, weights: Any = None, known: Any = None) -> Outcome:
    """Run a filter to its end, and recount."""
    count = len(scores)
    weights = np.ones(count, np.int64) if weights is None else weights
    known = np.full(count, -1, np.int8) if known is None else known
    cascade = FilterCascade(scores, weights, known, targets, seed)
    asked = np.zeros(count, bool)
    while len(units := cascade.next_wave()):
        assert not asked[units].any()
        asked[units] = True
        cascade.tell(units, answers[units])
    verdicts = cascade.verdicts()
    assert np.array_equal(verdicts[asked], answers[asked])
    both = weights[(verdicts == 1) & (answers == 1)].sum()
    yes, accepted = weights[answers == 1].sum(), weights[verdicts == 1].sum()
    return Outcome(
        recall=both / yes if yes else 1.0,
        precision=both / accepted if accepted else 1.0,
        accuracy=weights[verdicts == answers].sum() / max(weights.sum(), 1),
        share=float(asked.mean()) if count else 0.0,
        cascade=cascade,
    )


def labelled(
    rows: int, classes: int, targets: Targets, seed: int, sharpness: float = 2.0
) -> tuple[Any, Any, LabelCascade]:
    """Run a cascade of labels to its end. Return its labels, the oracle's and the cascade."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, rows)
    logits = rng.normal(size=(rows, classes))
    logits[np.arange(rows), truth] += sharpness
    chances = np.exp(sharpness * logits)
    chances /= chances.sum(1, keepdims=True)
    cascade = LabelCascade(
        chances.argmax(1), chances.max(1), np.ones(rows, np.int64), np.full(rows, -1), classes, targets, seed
    )
    while len(units := cascade.next_wave()):
        cascade.tell(units, truth[units])
    return cascade.verdicts(), truth, cascade
