"""Units in bins of similar score and weight; each bin asks its units in one random order."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_UNITS_PER_BIN = 50
_FEWEST_BINS, _MOST_BINS = 8, 48
_MOST_CLASSES = 6


def generator(seed: int) -> np.random.Generator:
    """Return the source of all chance of a cascade.

    The salt keeps it apart from a table that was itself drawn from a small seed: its rows would not be in random order.
    """
    return np.random.default_rng([seed % 2**64, 0x71C5])


@dataclass
class Bins:
    """Hold `ranks` x `classes` bins, from the lowest rank to the highest; a class is a range of weights.

    The bin of rank r and class k has the number r * classes + k. Its units are
    `order[start[b]:start[b + 1]]`, in random order; the first `taken[b]` of them are asked.
    So the next m units are a simple random sample of those that are not asked yet.
    """

    ranks: int
    classes: int
    group: Ints
    order: Ints
    start: Ints
    taken: Ints
    rows_left: Ints
    weight_mean: Floats
    weight_most: Floats
    key_mean: Floats

    @classmethod
    def build(
        cls, key: Floats, weights: Ints, units: Ints, rng: np.random.Generator, group: Ints | None = None
    ) -> "Bins":
        """Put `units` (indices) into bins of equal size by `key`; ties are broken at random.

        With `group` (0, 1, 2 ... for each unit) no bin has units of two groups, and the groups follow each other.
        """
        count = len(units)
        weight = weights[units]
        # A class spans a factor of two, so one rate and one potential suit all units of a bin.
        kind = np.minimum(np.frexp(np.maximum(weight, 1).astype(float))[1] - 1, 62)
        present = np.unique(kind)
        kind = np.minimum(np.searchsorted(present, kind), _MOST_CLASSES - 1)
        classes = int(kind.max()) + 1 if count else 1
        by_rank = np.lexsort((rng.random(count), key[units]))
        where = np.empty(count, np.int64)
        ranks, of_group = 0, []
        belongs = np.zeros(count, np.int64) if group is None else group[units]
        for which in range(int(belongs.max(initial=0)) + 1):
            part = by_rank[belongs[by_rank] == which]
            some = int(np.clip(len(part) // _UNITS_PER_BIN, _FEWEST_BINS, _MOST_BINS))
            where[part] = ranks + np.arange(len(part)) * some // max(len(part), 1)
            of_group += [which] * some
            ranks += some
        where = where * classes + kind
        order = np.lexsort((rng.random(count), where))
        number = ranks * classes
        sizes = np.bincount(where, minlength=number)
        rows = np.bincount(where, weights=weight, minlength=number)
        most = np.ones(number)
        np.maximum.at(most, where, weight)
        keys = np.bincount(where, weights=key[units], minlength=number)
        return cls(
            ranks=ranks,
            group=np.repeat(np.array(of_group, np.int64), classes),
            classes=classes,
            order=units[order],
            start=np.concatenate([[0], np.cumsum(sizes)]),
            taken=np.zeros(number, np.int64),
            rows_left=rows.astype(np.int64),
            weight_mean=np.where(sizes > 0, rows / np.maximum(sizes, 1), 1.0),
            weight_most=most,
            key_mean=keys / np.maximum(sizes, 1),
        )

    @property
    def number(self) -> int:
        """The number of bins."""
        return self.ranks * self.classes

    @property
    def sizes(self) -> Ints:
        """The number of units of each bin."""
        return np.diff(self.start)

    @property
    def left(self) -> Ints:
        """The number of units of each bin that are not asked yet."""
        return self.sizes - self.taken

    def take(self, counts: Ints) -> tuple[Ints, Ints]:
        """Take the next `counts[b]` units of each bin. Return the units and their bins."""
        where = np.repeat(np.arange(self.number), counts)
        first = np.repeat(self.start[:-1] + self.taken, counts)
        offset = np.arange(len(where)) - np.repeat(np.cumsum(counts) - counts, counts)
        self.taken = self.taken + counts
        return self.order[first + offset], where

    def bin_of(self, size: int) -> NDArray[np.int32]:
        """The bin of each of `size` units; -1 for units in no bin."""
        found = np.full(size, -1, np.int32)
        found[self.order] = np.repeat(np.arange(self.number, dtype=np.int32), self.sizes)
        return found
