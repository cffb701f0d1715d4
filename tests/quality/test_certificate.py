"""The bound on unseen errors keeps its word for every set of errors and every rule of asking."""

import numpy as np
import pytest

from flightllm.quality.bins import Bins, generator
from flightllm.quality.certificate import Certificate
from flightllm.quality.plan import path

RUNS = 600


def _last_state(seed: int, errors: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return the unseen errors' potential and the sum of G after three waves; both depend on what was found.

    One bin is dropped on the way, as if it had changed sides.
    """
    rng = np.random.default_rng([seed, 1])
    count = len(errors)
    bins = Bins.build(np.arange(count) / count, weights, np.arange(count), generator(seed))
    where = bins.bin_of(count)
    certificate = Certificate(bins.number, 0.1)
    seen = np.zeros(count, bool)
    for wave in range(3):
        # The rule is greedy: it asks more, and raises potentials more, where no error was found.
        found = np.bincount(where[seen & errors], minlength=bins.number) > 0
        rate = np.where(found, 0.2, 0.5)
        goal = certificate.potential - np.log1p(-rate) * np.where(found, 0.2, 0.5) / bins.weight_most
        part, reached = path(certificate.potential, rate, goal, bins.weight_most, 0.7)
        counts = np.minimum(np.floor(bins.left * part + rng.random(bins.number)).astype(np.int64), bins.left)
        units, places = bins.take(counts)
        seen[units] = True
        wrong = errors[units]
        certificate.wave(places[wrong], weights[units][wrong].astype(float), part, reached)
        if wave == 1:
            certificate.drop(np.arange(bins.number) != 3)
    unseen = ~seen & errors
    return float((certificate.potential[where] * weights)[unseen].sum()), certificate.found_sum


@pytest.mark.parametrize("kind", ["few", "heavy"])
def test_the_process_has_no_mean_above_one(kind: str) -> None:
    """M is at most 1 on average, also where errors have many rows; with half of G it would be more."""
    rng = np.random.default_rng(7)
    weights = rng.integers(1, 6, 160)
    errors = np.zeros(160, bool)
    errors[rng.choice(np.flatnonzero(weights >= (4 if kind == "heavy" else 1)), 8, replace=False)] = True
    unseen, found = np.array([_last_state(seed, errors, weights) for seed in range(RUNS)]).T
    values = np.exp(unseen + found)
    assert values.mean() <= 1 + 3 * values.std() / np.sqrt(RUNS)
    broken = np.exp(unseen + found / 2)
    assert broken.mean() > 1 + 3 * broken.std() / np.sqrt(RUNS)


def test_the_bound_is_a_knapsack() -> None:
    """Errors go first where their potential is lowest: 2 rows for 0 each, 4 for 0.5 each, then half of one for 1."""
    certificate = Certificate(3, float(np.exp(-2.5)))
    certificate.potential = np.array([1.0, 0.0, 0.5])
    assert certificate.bound(np.array([10, 2, 4])) == 2 + 4
    assert certificate.bound(np.array([10, 2, 3])) == 2 + 3 + 1
    assert certificate.bound(np.array([0, 0, 2])) == 2


def test_potentials_rise_only_where_rows_are_asked() -> None:
    """A potential that rises more than the rate allows would void the proof, so it is refused."""
    certificate = Certificate(1, 0.1)
    with pytest.raises(ValueError, match="not asked"):
        certificate.wave(np.array([], int), np.array([]), np.array([0.0]), np.array([0.1]))
    with pytest.raises(ValueError, match="rises more"):
        certificate.wave(np.array([0]), np.array([1.0]), np.array([0.1]), np.array([0.2]))


def test_found_errors_widen_the_bound() -> None:
    """With one row in four asked and a potential of 0.1, an error that was found leaves room for three others or so."""
    certificate = Certificate(1, 0.1)
    before = certificate.room
    certificate.wave(np.array([0]), np.array([1.0]), np.array([0.25]), np.array([0.1]))
    assert certificate.room - before == pytest.approx(-np.log((1 - 0.75 * np.exp(0.1)) / 0.25))
    assert 3 < (certificate.room - before) / 0.1 < 4
