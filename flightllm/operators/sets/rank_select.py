"""Rank the first of many items by orders of a few items at a time: multi-pivot quickselect, then votes.

Each round, a group of items is cut into windows. A window has some items and the group's pivots. The number of pivots
before an item tells its part of the group. Each item is in two windows with other companions, so that one wrong order
moves it little. Parts that the first items cannot come from are left alone. The items in front are ordered by votes.
Without errors of the model, the order is exact; all of n items then take about 3 · n · log2(n) windows of two.

Example: of 1,000 items, the first 10 are wanted, by windows of 10. A sample of 30 items gives three pivots near the
front. 286 windows compare all items with them. About 40 items stay, and 24 windows put these into their order.

Sources: Yang et al., "ListK", arXiv 2603.17223, for windows with several pivots; Floyd and Rivest, "Expected time
bounds for selection", 1975, for pivots from a sample.
"""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations
from typing import Final, TypeAlias

from flightllm.operators.sets.rank_votes import by_votes

Window: TypeAlias = tuple[int, ...]
"""Some items; their order is that of the prompt."""
Compare: TypeAlias = Callable[[Sequence[Window]], Sequence[Sequence[int] | None]]
"""Orders the items of each of several windows, all at once; None where a window has no answer."""

_Votes: TypeAlias = dict[int, tuple[Sequence[int], list[float]]]
"""For each item the pivots of its group, and for each of its windows how many of them are before it."""

PAIR: Final = 2
_VOTES: Final = 2
"""How many windows compare an item with the pivots first, and again where these disagree."""
_LAST_VOTES: Final = 14
"""How many windows each item in front is in for the order of all of these, and as many again for the first of them."""
_WHOLE_VOTES: Final = 4
"""How many windows have all items of a set that fits into a window, in different orders of the prompt."""
_PAIR_VOTES: Final = 12
"""The same for pairs, which tell less."""
_SAMPLE_VOTES: Final = 3
_SAMPLE_WINDOWS: Final = 3
"""The sample for pivots has as many items as this many windows."""
_LEAST_SAMPLE: Final = 12
_BEYOND: Final = 1.5
"""The first pivot is aimed at this many times the items that are wanted."""
_FEW: Final = 6
"""So many windows of items are ordered by votes over all of them; more items are ordered block by block."""
_MARGIN: Final = 0.5
"""The share of the pivots by which an item can be behind the last wanted item, and stay."""
_SHRINKS: Final = 0.75
"""A round that leaves more than this share of the items has told nothing."""
_MOST_STALLS: Final = 2
"""After so many such rounds, the items are taken as they are."""
_FEW_PAIRED: Final = 5
"""So many items are put into their order by all their pairs."""
_MOST_CHECKS: Final = 6
"""How often neighbours in the order that no window had together are asked about."""
_PASSES: Final = 3


@dataclass(frozen=True, slots=True)
class Ranked:
    """The first items in their order, at least as many as wanted, and the items that no window with an answer had."""

    first: Sequence[int]
    unanswered: frozenset[int]


def rank(items: int, wanted: int, window: int, compare: Compare, seed: int = 0) -> Ranked:
    """Rank the items 0 to `items` - 1 by orders of at most `window` of them, which `compare` returns.

    Equal arguments make equal windows if `compare` answers alike, so that known answers are found again.
    """
    return _Selection(window, compare, random.Random(seed)).ranked(list(range(items)), min(wanted, items))  # noqa: S311


@dataclass(slots=True)
class _Selection:
    window: int
    """The most items of a window; smaller once most windows had no answer."""
    compare: Compare
    rng: random.Random
    seen: set[int] = field(default_factory=set)
    """The items of windows that had an answer."""

    def ranked(self, items: list[int], wanted: int) -> Ranked:
        if len(items) < PAIR or wanted < 1:
            return Ranked(items, frozenset())
        target = len(items) if wanted == len(items) else min(len(items), 2 * wanted + self.window)
        front = self._narrowed(items, target)
        if len(front) <= _FEW * self._width:
            ordered = self._voted(front, wanted)
        else:
            ordered = self._block_by_block(self._in_parts(front, target))
        unanswered = frozenset(items) - self.seen
        return Ranked([one for one in ordered if one not in unanswered], unanswered)

    @property
    def _width(self) -> int:
        """Return the size of a set that is put into its order at once."""
        return _FEW_PAIRED if self.window == PAIR else self.window

    def _narrowed(self, items: list[int], target: int) -> list[int]:
        """Return the items that can be among the first `target`, as long as these are far in front."""
        front, stalls = items, 0
        while stalls < _MOST_STALLS and len(front) > _FEW * self._width and _BEYOND * target < len(front):
            sample = self._sample(front)
            self._order_sets([sample], _SAMPLE_VOTES)
            count = self._pivot_count(len(sample))
            first = min(int(_BEYOND * target * len(sample) / len(front)), len(sample) - count)
            behind = self._behind([(front, sample[first : first + count])])
            # with errors, some of the first items have a few pivots before them: the next round looks at these again
            limit = sorted(behind.values())[target - 1] + _MARGIN * count
            kept = [item for item in front if behind[item] <= limit]
            stalls += len(kept) > _SHRINKS * len(front)
            front = kept
        return front

    def _in_parts(self, items: list[int], target: int) -> list[list[int]]:
        """Return the items in parts, each before the next; those of the first `target` fit into a window."""
        parts, stalls = [items], [0]
        # How often each part was split in vain one time after the other. Votes of few windows choose the pivots, which
        # can be at an end of the part. The next pivot is surely at no end; if it fails too, the items seem alike.
        while places := [
            place
            for place in _needed(parts, target)
            if len(parts[place]) > self._width and stalls[place] < _MOST_STALLS
        ]:
            samples = {place: self._sample(parts[place]) for place in places if not stalls[place]}
            self._order_sets(list(samples.values()), _SAMPLE_VOTES)
            pivots = {place: self._even_pivots(sample) for place, sample in samples.items()}
            pivots |= self._middles({place: parts[place] for place in places if stalls[place]})
            behind = self._behind([(parts[place], pivots[place]) for place in places])
            split: list[tuple[list[int], int]] = []
            for place, part in enumerate(parts):
                if place not in pivots:
                    split.append((part, stalls[place]))
                    continue
                own: list[list[int]] = [[] for _ in range(len(pivots[place]) + 1)]
                for item in part:
                    own[math.ceil(behind[item] - 0.5)].append(item)
                least = len(part) - len(pivots[place])  # a part of this size has lost only pivots
                split += [(one, stalls[place] + 1 if len(one) >= least else 0) for one in own if one]
            parts, stalls = [one for one, _ in split], [stalled for _, stalled in split]
        return [parts[place] for place in _needed(parts, target)]

    def _sample(self, group: Sequence[int]) -> list[int]:
        size = min(max(_SAMPLE_WINDOWS * self.window, _LEAST_SAMPLE), max(2 * PAIR, len(group) // 2))
        return self.rng.sample(group, min(size, len(group)))

    def _middles(self, groups: Mapping[int, Sequence[int]]) -> dict[int, list[int]]:
        """Return a pivot of each group, the middle one of few items in order: without errors, it splits its group."""
        samples = {place: self.rng.sample(group, min(_FEW_PAIRED, len(group))) for place, group in groups.items()}
        pairs = [(place, pair) for place, sample in samples.items() for pair in combinations(sample, PAIR)]
        votes: dict[int, list[Sequence[int]]] = {place: [] for place in samples}
        for (place, _), order in zip(pairs, self._orders([pair for _, pair in pairs]), strict=True):
            if order is not None:
                votes[place].append(order)
        return {place: [by_votes(sample, votes[place])[(len(sample) - 1) // 2]] for place, sample in samples.items()}

    def _even_pivots(self, sample: Sequence[int]) -> list[int]:
        """Return pivots of an ordered sample that divide its group evenly."""
        count = self._pivot_count(len(sample))
        return [sample[(place + 1) * len(sample) // (count + 1)] for place in range(count)]

    def _pivot_count(self, most: int) -> int:
        return 1 if self.window == PAIR else min(max(1, round(0.3 * self.window)), most)

    def _behind(self, sets: Sequence[tuple[Sequence[int], Sequence[int]]]) -> dict[int, float]:
        """Return how many pivots of its group are before each item, on average over its windows.

        An item has two more windows where two windows disagree about it.
        """
        places = {pivot: float(place) for _, pivots in sets for place, pivot in enumerate(pivots)}
        given: _Votes = {item: (pivots, []) for group, pivots in sets for item in group if item not in places}
        among: dict[int, list[float]] = {pivot: [] for pivot in places}
        self._count(given, among, _VOTES)
        self._count({item: one for item, one in given.items() if _disagree(one[1])}, among, _VOTES)
        known = {pivot: sum(votes) / len(votes) if votes else places[pivot] for pivot, votes in among.items()}
        return known | {item: sum(v) / len(v) if v else float(len(p)) for item, (p, v) in given.items()}

    def _count(self, given: _Votes, among: Mapping[int, list[float]], votes: int) -> None:
        """Add to the votes of each item how many of its pivots are before it, by windows with these pivots.

        `among` gets the same for the pivots: the sample has put them into an order that can be wrong.
        """
        waiting = [(item, vote) for vote in range(votes) for item in given]
        window = self.window
        while waiting:
            asked = [(w, pivots, vote) for w, pivots, vote in self._with_pivots(given, waiting, window)]
            orders = self._orders([w for w, _, _ in asked])
            waiting = []
            for (one, pivots, vote), order in zip(asked, orders, strict=True):
                own = [item for item in one if item not in pivots]
                if order is None:
                    waiting += [(item, vote) for item in own] if window > PAIR else []
                    continue
                all_pivots, before = len(given[own[0]][0]), 0
                for item in order:
                    (among[item] if item in pivots else given[item][1]).append(before * all_pivots / len(pivots))
                    before += item in pivots
            window = max(PAIR, window // 2)

    def _with_pivots(
        self, given: _Votes, waiting: Sequence[tuple[int, int]], window: int
    ) -> Iterator[tuple[Window, Sequence[int], int]]:
        """Cut items into windows with pivots: both orders of the prompt's items are about equally common."""
        by_set: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        for item, vote in waiting:
            by_set.setdefault((vote, tuple(given[item][0])), []).append(item)
        for (vote, pivots), members in by_set.items():
            fewer = max(1, round(0.3 * window)) if window > PAIR else 1
            used = pivots if len(pivots) <= fewer else pivots[(len(pivots) - fewer) // 2 :][:fewer]
            self.rng.shuffle(members)
            for some in _blocks(members, max(1, window - len(used))):
                together = [*some, *used]
                if len(together) == PAIR:
                    together.sort(reverse=vote % 2 == 1, key=lambda one: one in used)
                else:
                    self.rng.shuffle(together)
                yield tuple(together), used, vote

    def _voted(self, items: list[int], wanted: int) -> list[int]:
        """Return the items in their order by votes; those in front get as many votes again."""
        votes = _PAIR_VOTES if self.window == PAIR else _LAST_VOTES
        ordered = list(items)
        orders = self._order_sets([ordered], votes)
        first = max(2 * wanted, self._width)
        if first < len(items) and wanted < len(items):
            front = ordered[:first]
            among = set(front)
            known = [[item for item in order if item in among] for order in orders]
            orders += self._order_sets([front], votes, [order for order in known if len(order) >= PAIR])[len(known) :]
            ordered[:first] = front
        for _ in range(_MOST_CHECKS):
            checks = list(_unseen(ordered[: wanted + self._width], self.window, orders))
            if not checks:
                break
            orders += [order for order in self._orders(checks) if order is not None]
            ordered = by_votes(ordered, orders)
        return ordered

    def _block_by_block(self, parts: Sequence[list[int]]) -> list[int]:
        """Return the items of parts in their order: each part by itself, then over the borders of parts."""
        blocks = [list(block) for part in parts for block in _blocks(part, self._width)]
        ordered: list[int] = []
        for turn in range(_PASSES):
            self._order_sets(blocks, 1)
            ordered = [item for block in blocks for item in block]
            first = (turn + 1) % 2 * (self._width // 2)
            blocks = [ordered[:first], *map(list, _blocks(ordered[first:], self._width))]
        return ordered

    def _order_sets(
        self, sets: Sequence[list[int]], votes: int, known: Sequence[Sequence[int]] = ()
    ) -> list[Sequence[int]]:
        """Put each of several sets of items into its order in place, by windows that vote, and return these votes.

        The votes in `known` count too.
        """
        windows: list[Window] = []
        for members in sets:
            windows += self._votes_of(members, votes)
        orders, window = list(known), self.window
        while windows:
            answered = self._orders(windows)
            orders += [order for order in answered if order is not None]
            window = max(PAIR, window // 2)
            failed = [one for one, order in zip(windows, answered, strict=True) if order is None and len(one) > PAIR]
            windows = [tuple(part) for one in failed for part in _blocks(one, window) if len(part) >= PAIR]
        place = {item: number for number, members in enumerate(sets) for item in members}
        by_set: list[list[Sequence[int]]] = [[] for _ in sets]
        for order in orders:
            by_set[place[order[0]]].append(order)
        for members, own in zip(sets, by_set, strict=True):
            members[:] = by_votes(members, own)
        return orders

    def _votes_of(self, members: Sequence[int], votes: int) -> Iterator[Window]:
        """Cut a set into windows, as often as it takes: few items have all their pairs, in both orders of a prompt."""
        if votes == 1 and self.window == PAIR:
            yield from combinations(self.rng.sample(members, len(members)), PAIR)
            return
        if self.window == PAIR or len(members) == PAIR:
            if len(members) <= 1 + votes // 2:
                yield from permutations(members, PAIR)
                return
        elif len(members) <= self.window:
            votes = min(votes, _WHOLE_VOTES)
        for _ in range(votes if len(members) > 1 else 0):
            shuffled = self.rng.sample(members, len(members))
            yield from (tuple(part) for part in _blocks(shuffled, self.window) if len(part) >= PAIR)

    def _orders(self, windows: Sequence[Window]) -> list[Sequence[int] | None]:
        found = list(self.compare(windows))
        failed = 0
        for one, order in zip(windows, found, strict=True):
            failed += order is None
            if order is not None:
                self.seen.update(one)
        if 2 * failed > len(windows):
            self.window = max(PAIR, self.window // 2)
        return found


def _disagree(votes: Sequence[float]) -> bool:
    return bool(votes) and min(votes) < max(votes)


def _needed(parts: Sequence[Sequence[int]], target: int) -> Iterator[int]:
    """Yield the places of the parts that the first `target` items come from."""
    start = 0
    for place, part in enumerate(parts):
        if start >= target:
            return
        yield place
        start += len(part)


def _unseen(ordered: Sequence[int], window: int, orders: Sequence[Sequence[int]]) -> Iterator[Window]:
    """Yield windows of neighbours, of which some were in no window together."""
    seen = {pair for order in orders for pair in permutations(order, PAIR)}
    place = 0
    while place + 1 < len(ordered):
        if (ordered[place], ordered[place + 1]) in seen:
            place += 1
            continue
        first = max(0, place + PAIR - max(PAIR, (window + PAIR) // 2))
        yield tuple(ordered[first : first + window])
        place = first + window - 1


def _blocks(items: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    """Cut items into the fewest blocks of at most `size`, all of about the same length."""
    count = max(1, math.ceil(len(items) / size))
    for place in range(count):
        yield items[place * len(items) // count : (place + 1) * len(items) // count]
