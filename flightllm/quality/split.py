"""Split a promise about the rows of a query's result over its operators."""

from collections.abc import Callable, Sequence

import numpy as np

from flightllm.quality.targets import Targets

_STEPS = 8
_LEAST = 0.02
"""The least share of the allowed errors that an operator keeps while shares move."""


def split(
    targets: Targets, kinds: Sequence[str], cost: Callable[[int, Targets], float] | None = None
) -> list[Targets | None]:
    """Return the targets of each operator, so that together they keep `targets`; None where no proxy can decide.

    `kinds` says "filter" or "label" for each operator. Several filters that one certificate covers are one filter.
    `cost(i, targets)` is the expected price of operator i with the targets; budget moves to the operator where it saves
    most. Without it all operators get the same.

    The rates of the filter must be relative to the rows of the result that the oracles give. So its rows must have
    passed all other filters. A filter that comes before others can lose just those rows that the others keep. Then no
    rate of its own proves anything about the result. The accuracy of a label is about the rows that the filter lets
    through.

    Proof: T are the result rows of the oracles, and n is the number of returned rows. The filter keeps a recall r and a
    precision p, and each label an accuracy a. All of them hold together, because their chances to miss add up.
    At most (1 - p) n returned rows are falsely accepted, and at most sum(1 - a) n have a wrong label. So the precision
    is at least p - sum(1 - a). At least p n returned rows are in T, so n <= |T| / p. At most (1 - r) |T| rows are lost
    by the filter, and at most sum(1 - a) n by labels. So the recall is at least r - sum(1 - a) / p.

    Raises:
        ValueError: there are two filters. Rates of two filters in a row prove nothing about the result.
    """
    count = len(kinds)
    if not count:
        return []
    if kinds.count("filter") > 1:
        raise ValueError("One filter can have a share: the rows that it loses could be all that another filter keeps.")
    weights = np.full(count, 1 / count)

    if cost is None or count == 1:
        return _parts(targets, kinds, weights)

    def price(shares: np.ndarray) -> float:
        return sum(cost(at, part) for at, part in enumerate(_parts(targets, kinds, shares)) if part is not None)

    now, move = price(weights), 0.5 / count
    for _ in range(_STEPS):
        tries = []
        for giver in range(count):
            for taker in range(count):
                if giver == taker or weights[giver] - move <= _LEAST:
                    continue
                moved = weights.copy()
                moved[giver] -= move
                moved[taker] += move
                tries.append((price(moved), moved))
        cheapest = min(tries, key=lambda pair: pair[0], default=(now, weights))
        if cheapest[0] < now:
            now, weights = cheapest
        else:
            move /= 2
    return _parts(targets, kinds, weights)


def _parts(targets: Targets, kinds: Sequence[str], shares: np.ndarray) -> list[Targets | None]:
    """Return the targets of the operators that get these shares of the allowed errors."""
    filtered = next((share for kind, share in zip(kinds, shares, strict=True) if kind == "filter"), None)
    return [
        _filter(targets, share, len(kinds)) if kind == "filter" else _label(targets, share, len(kinds), filtered)
        for kind, share in zip(kinds, shares, strict=True)
    ]


def _filter(targets: Targets, share: float, count: int) -> Targets:
    """Return the targets of a filter that gets `share` of the allowed errors and an equal part of delta."""
    return Targets(
        _lessened(targets.recall, share),
        _lessened(targets.precision, share),
        _lessened(targets.accuracy, share),
        1 - targets.delta / count,
        targets.label_budget,
    )


def _label(targets: Targets, share: float, count: int, filtered: float | None) -> Targets | None:
    """Return the targets of a label; `filtered` is that of the filter; it is None if there is no filter.

    A wrong label is a wrong row and a lost row. Without a filter, as many rows return as the oracles give.
    """
    allowed = [1 - rate for rate in (targets.precision, targets.accuracy) if rate is not None]
    if targets.recall is not None:
        if filtered is not None and targets.precision is None:
            return None  # the returned rows, and so the wrong labels, could be any number
        right = 1.0 if filtered is None else 1 - (1 - (targets.precision or 0.0)) * filtered
        allowed.append((1 - targets.recall) * right)
    return Targets(
        accuracy=1 - share * min(allowed), confidence=1 - targets.delta / count, label_budget=targets.label_budget
    )


def _lessened(rate: float | None, share: float) -> float | None:
    return None if rate is None else 1 - (1 - rate) * share
