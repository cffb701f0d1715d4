"""An upper bound on the errors among rows that were not asked, valid at every moment and for every rule of asking.

Each unit that can be an error has a potential u, at first 0. Before a wave, a rate p and a new potential u' are fixed
for each bin. A unit of weight w that turns out to be an error adds G to the sum, where
p e^G + (1 - p) e^(u'w) = e^(uw). So M = exp(sum of u w over unseen errors + sum of G over found errors) keeps its mean,
which is 1 at the start. With probability 1 - alpha, M stays below 1 / alpha for ever (Ville). So the unseen errors
weigh at most ln(1 / alpha) - sum of G, in units of their potentials.
"""

from dataclasses import dataclass, field

import numpy as np

from flightllm.quality.bins import Floats, Ints


@dataclass
class Certificate:
    """Bound the rows of unseen errors with probability 1 - alpha. `potential` has one entry for each bin."""

    bins: int
    alpha: float
    potential: Floats = field(init=False)
    found_sum: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.potential = np.zeros(self.bins)

    @property
    def room(self) -> float:
        """The most potential that the unseen errors can have together."""
        return max(float(np.log(1 / self.alpha)) - self.found_sum, 0.0)

    def wave(self, where: Ints, weights: Floats, rate: Floats, goal: Floats) -> None:
        """Add the errors that a wave found, and move the potentials to `goal`.

        `where` and `weights` are the bins and rows of the found errors. The rate of a bin is the probability that one
        of its unseen units was asked in this wave. Fix rate and goal before the answers are known.

        Raises:
            ValueError: a goal is too high for its rate, so no G keeps the mean.
        """
        if np.any(goal[rate <= 0] > self.potential[rate <= 0]):
            raise ValueError("A potential rises in a bin that was not asked.")
        before = np.exp(self.potential[where] * weights)
        rates = rate[where]
        full = rates >= 1
        inner = np.where(full, before, before - (1 - rates) * np.exp(goal[where] * weights))
        if np.any(inner <= 0):
            raise ValueError("A potential rises more than its rate of asking allows.")
        self.potential = goal.copy()
        self.found_sum += float(np.log(inner / np.where(full, 1.0, rates)).sum())

    def drop(self, inside: np.ndarray) -> None:
        """Let the potential of bins outside the tail fall to 0: M can only fall."""
        self.potential = np.where(inside, self.potential, 0.0)

    def bound(self, rows: Ints) -> int:
        """Return the most rows of unseen errors among `rows` unseen rows of each bin of the tail."""
        inside = rows > 0
        potential, rows = self.potential[inside], rows[inside]
        cheapest = np.argsort(potential, kind="stable")
        potential, counts = potential[cheapest], rows[cheapest].astype(float)
        price = potential * counts
        spent = np.concatenate([[0.0], np.cumsum(price)])
        whole = spent[1:] <= self.room
        total = float(counts[whole].sum())
        if not whole.all():
            at = int(np.argmin(whole))
            total += (self.room - spent[at]) / potential[at]
        return int(np.floor(total + 1e-9))
