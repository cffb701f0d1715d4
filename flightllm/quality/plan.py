"""Choose the rates of asking that are expected to certify a tail with the fewest questions."""

from dataclasses import dataclass

import numpy as np

from flightllm.quality.bins import Floats

_SHARES = np.concatenate([np.geomspace(0.002, 0.3, 16), np.linspace(0.35, 0.95, 13), [0.98, 1.0]])
_PRICES = np.geomspace(0.1, 1e5, 32)
_STRETCHES = np.array([1.15, 1.35, 1.6, 1.9, 2.3, 2.8, 3.5, 4.5, 6.0, 9.0])


@dataclass(frozen=True)
class Tail:
    """Describe a tail to the planner; arrays have one entry for each bin, in the order of the planner.

    `units` counts those that are not asked yet. `heaviest` is the most rows of a unit. `errors` is the estimated share
    of errors, and `potential` that of the certificate.
    """

    units: Floats
    heaviest: Floats
    errors: Floats
    potential: Floats

    def part(self, inside: np.ndarray) -> "Tail":
        """Return the tail of the bins `inside`."""
        return Tail(self.units[inside], self.heaviest[inside], self.errors[inside], self.potential[inside])


@dataclass(frozen=True)
class Choices:
    """Hold the best rate of each bin, for each final potential (first axis) and price of certainty (second axis)."""

    goal: Floats
    rate: Floats
    asked: Floats
    mean: Floats


def choices(tail: Tail, goals: Floats, prices: Floats) -> Choices:
    """Minimise, in each bin, the units asked plus `price` times the expected cost of found errors."""
    weight = tail.heaviest[None, :, None]
    before = np.exp(np.minimum(tail.potential[None, :, None] * weight, 50.0))
    goal = np.maximum(goals[:, None], tail.potential[None, :])[:, :, None]
    after = np.exp(np.minimum(goal * weight, 50.0))
    least = 1 - before / after
    rate = least + (1 - least) * _SHARES
    inner = before - (1 - rate) * after
    # A unit that is asked for sure adds its old potential; others add what keeps the mean of M.
    cost = -np.log(np.maximum(inner, 1e-12) / rate)
    cost = np.where(rate >= 1, -np.log(before), cost)
    units, errors = tail.units[None, :, None], tail.errors[None, :, None]
    mean = units * rate * errors * cost
    asked = units * rate
    # A bin that already has its potential need not be asked.
    stay = least <= 0
    zero = np.zeros_like(least)
    rate = np.concatenate([np.where(stay, 0.0, rate[:, :, :1]), rate], axis=2)
    asked = np.concatenate([np.where(stay, 0.0, asked[:, :, :1]), asked], axis=2)
    mean = np.concatenate([np.where(stay, zero, mean[:, :, :1]), mean], axis=2)
    best = (asked[:, None] + prices[None, :, None, None] * mean[:, None]).argmin(axis=3)

    def pick(values: Floats) -> Floats:
        return np.take_along_axis(values[:, None], best[..., None], axis=3)[..., 0]

    picked = pick(rate)
    return Choices(np.broadcast_to(goal[:, None, :, 0], picked.shape), picked, pick(asked), pick(mean))


@dataclass(frozen=True)
class Rates:
    """State the rate and the final potential of each bin, and how many units the plan is expected to ask."""

    rate: Floats
    goal: Floats
    asked: float


def full(tail: Tail) -> Rates:
    """Ask every unit."""
    return Rates(np.ones(len(tail.units)), tail.potential, float(tail.units.sum()))


def grid(room: float, budget: float) -> tuple[Floats, Floats]:
    """Return final potentials that can certify `budget` rows of unseen errors, and prices."""
    return max(room, 0.05) / max(budget, 1e-9) * _STRETCHES, _PRICES


def best(tail: Tail, room: float, budget: float) -> Rates:
    """Return the cheapest rates whose expected bound is at most `budget` rows."""
    everything = full(tail)
    if budget <= 0 or not len(tail.units):
        return everything
    goals, prices = grid(room, budget)
    result = everything
    for _ in range(2):
        found = choices(tail, goals, prices)
        asked = found.asked.sum(2)
        need = (room + found.mean.sum(2)) / goals[:, None]
        asked = np.where(need <= budget, asked, np.inf)
        at = np.unravel_index(int(asked.argmin()), asked.shape)
        if not asked[at] < result.asked:
            return result
        result = Rates(found.rate[at], found.goal[at].copy(), float(asked[at]))
        # Look again, more finely, around the best pair.
        goals = goals[at[0]] * np.linspace(0.88, 1.14, 7)
        prices = prices[at[1]] * np.geomspace(0.6, 1.7, 13)
    return result


def path(before: Floats, rate: Floats, goal: Floats, heaviest: Floats, share: float) -> tuple[Floats, Floats]:
    """Return the rates and potentials after the first `share` of a plan.

    The rest of the plan then leads to the same end: found errors add the same amount in both parts.
    """
    part = np.where(rate >= 1, share, rate * share)
    start = np.exp(before * heaviest)
    end = np.exp(np.where(rate >= 1, before, goal) * heaviest)
    inner = start - (1 - rate) * end
    found = np.where(rate >= 1, start, inner / np.where(rate > 0, rate, 1))
    rest = np.maximum((start - part * found) / np.where(part < 1, 1 - part, 1), start)
    moved = np.log(rest) / heaviest
    reached = np.where((part >= 1) | (rate <= 0) | (rate >= 1), before, np.maximum(moved, before))
    return part, reached


def below(values: Floats) -> Floats:
    """Return the sums over the bins below each cut, along the last axis."""
    sums = np.cumsum(values, axis=-1)
    return np.concatenate([np.zeros((*sums.shape[:-1], 1)), sums], axis=-1)


def by_cut(tail: Tail, rooms: Floats, budget: float) -> Floats:
    """Return the units asked for each room (first axis) and each cut: the tail has the bins below the cut."""
    everything = below(tail.units)
    if budget <= 0:
        return np.tile(everything, (len(rooms), 1))
    goals, prices = grid(float(np.median(rooms)), budget)
    found = choices(tail, goals, prices)
    asked = below(found.asked)
    certain = below(found.mean)
    return np.array([_cheapest(asked, (room + certain) / goals[:, None, None], budget, everything) for room in rooms])


def by_cut_of_both(low: Tail, high: Tail, room: float, budget: float) -> Floats:
    """Return the units asked for each cut where the tails below and above it share one room and one budget.

    `high` has the bins of `low` in reverse order.
    """
    everything = np.full(len(low.units) + 1, low.units.sum())
    if budget <= 0:
        return everything
    goals, prices = grid(room, budget)
    first, second = choices(low, goals, prices), choices(high, goals, prices)
    asked = below(first.asked) + below(second.asked)[..., ::-1]
    certain = below(first.mean) + below(second.mean)[..., ::-1]
    return _cheapest(asked, (room + certain) / goals[:, None, None], budget, everything)


def _cheapest(asked: Floats, need: Floats, budget: float, everything: Floats) -> Floats:
    fits = np.where(need <= budget, asked, np.inf)
    return np.asarray(np.minimum(fits.min(axis=(0, 1)), everything), np.float64)


def least_of(before: Floats, goal: Floats, rate: Floats, heaviest: Floats) -> Floats:
    """Return the potentials `goal`, lowered where `rate` does not allow them, and `before` where nothing is asked."""
    most = before - np.log1p(-np.minimum(rate, 0.999)) * 0.5 / heaviest
    return np.where(rate > 0, np.minimum(goal, most), before)
