"""Order items by several orders of some of them: each order is a vote about every pair of its items.

Orders can contradict one another: a before b, b before c, c before a. The strengths of Bradley and Terry weigh all
votes together.

Sources: Hunter, "MM algorithms for generalized Bradley–Terry models", Annals of Statistics 32, 2004; Dwork et al.,
"Rank aggregation methods for the web", 2001, for the votes about neighbours.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

_PRIOR: Final = 0.3
"""Each item also wins and loses so much against an average item, so that no strength is infinite."""
_STEPS: Final = 60


def by_votes(items: Sequence[int], orders: Sequence[Sequence[int]]) -> list[int]:
    """Return the items, the strongest first. Ties, and items without a vote, keep their order; the latter come last."""
    place = {item: number for number, item in enumerate(items)}
    wins = np.zeros((len(items), len(items)))
    for order in orders:
        places = [place[item] for item in order]
        for number, one in enumerate(places):
            wins[one, places[number + 1 :]] += 1
    games = wins + wins.T
    won, strength = wins.sum(axis=1) + _PRIOR, np.ones(len(items))
    for _ in range(_STEPS):
        against = (games / (strength[:, None] + strength[None, :])).sum(axis=1)
        strength = won / (against + 2 * _PRIOR / (strength + 1))
    voted = games.sum(axis=1) > 0
    places = sorted(range(len(items)), key=lambda one: (not voted[one], -strength[one], one))
    for first in range(1, len(places)):  # no two neighbours stay against the votes about just these two
        here = first
        while here and wins[places[here], places[here - 1]] > wins[places[here - 1], places[here]]:
            places[here - 1], places[here] = places[here], places[here - 1]
            here -= 1
    return [items[one] for one in places]
