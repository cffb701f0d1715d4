"""Find the pairs of texts that can name the same thing, without a comparison of each text with each other one.

Near duplicates share rare pieces, or the lowest hashes of their pieces (MinHash). Texts that share one are neighbours
in a list, sorted by their spelling, and each text meets only its nearest neighbours. So time and memory grow linearly.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from flightllm.errors import check_cancelled
from flightllm.operators.sets.text_grams import GramTable, Hashes, Ints, folded, gram_table, mixed

_RAREST: Final = 12
"""The rarest pieces of a text by which it meets others."""
_BANDS, _ROWS = 16, 2
"""The keys by MinHash of a text, and how many lowest hashes each has.

Two texts that share half of their pieces share such a key with a probability of 1 - (1 - 0.5²)^16 = 0.99.
"""
_WINDOW: Final = 16
"""How many neighbours a text meets in each direction in the list of one key."""
_MEETINGS: Final = 6_000_000
"""The most meetings that are counted at once."""
_COMPARED: Final = 24
"""The most meetings of a text whose similarity is computed: those that share the most keys."""
_EXHAUSTIVE: Final = 400
"""Up to so many texts, all pairs are compared."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of texts by their places, `left` below `right`, and how similar each is, from 0 to 1."""

    left: Ints
    right: Ints
    scores: NDArray[np.float64]

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.left)

    def part(self, chosen: NDArray[np.bool_] | Ints) -> "Pairs":
        """Return some pairs."""
        return Pairs(self.left[chosen], self.right[chosen], self.scores[chosen])


def similar_pairs(texts: Sequence[str], most: int, each: int, least: float, cancelled: Callable[[], bool]) -> Pairs:
    """Return up to `most` pairs, and up to `each` for a text: the most similar ones, from `least` on.

    The same texts give the same pairs. The most similar pair is the first.

    Raises:
        CancelledError: the query was cancelled.
    """
    spelled = [folded(text) for text in texts]
    table = gram_table(spelled, cancelled)
    if len(texts) <= _EXHAUSTIVE:
        left, right = (side.astype(np.int64) for side in np.triu_indices(len(texts), 1))
    else:
        left, right = _met(table, spelled, cancelled)
    pairs = Pairs(left, right, np.minimum(table.similarity(left, right, cancelled), 1.0))
    return best_pairs(pairs.part(pairs.scores >= least), len(texts), most, each)


def best_pairs(pairs: Pairs, texts: int, most: int, each: int) -> Pairs:
    """Return the `each` most similar pairs of each text, and of those the `most` most similar ones."""
    pairs = pairs.part(_most_similar(pairs.left, pairs.right, pairs.scores, texts, each))
    order = np.lexsort((pairs.right, pairs.left, -pairs.scores))
    return pairs.part(order[:most])


def _most_similar(left: Ints, right: Ints, scores: NDArray[np.float64], texts: int, each: int) -> Ints:
    """Return the pairs that are among the `each` most similar ones of one of their texts."""
    owner, pair = np.concatenate([left, right]), np.tile(np.arange(len(left)), 2)
    order = np.lexsort((pair, -scores[pair], owner))
    owner, pair = owner[order], pair[order]
    starts = np.searchsorted(owner, np.arange(texts))
    return np.unique(pair[np.arange(len(owner)) - starts[owner] < each])


def _met(table: GramTable, spelled: Sequence[str], cancelled: Callable[[], bool]) -> tuple[Ints, Ints]:
    """Return the pairs of texts that share a key and are near each other in its list."""
    owners, keys = _keys(table, cancelled)
    rank = np.empty(len(spelled), np.int64)
    rank[sorted(range(len(spelled)), key=lambda place: (spelled[place][::-1], place))] = np.arange(len(spelled))
    order = np.lexsort((rank[owners], keys))
    owners, keys = owners[order], keys[order]
    parts = 1 + len(owners) * _WINDOW // _MEETINGS
    found: list[tuple[Ints, Ints]] = []
    for part in range(parts):
        check_cancelled(cancelled)
        met = [_at_distance(owners, keys, shift, part, parts, len(spelled)) for shift in range(1, _WINDOW + 1)]
        pairs, counts = np.unique(np.concatenate(met), return_counts=True)
        left, right = pairs // len(spelled), pairs % len(spelled)
        kept = _most_similar(left, right, counts.astype(np.float64), len(spelled), _COMPARED)
        found.append((left[kept], right[kept]))
    return np.concatenate([left for left, _ in found]), np.concatenate([right for _, right in found])


def _at_distance(owners: Ints, keys: Hashes, shift: int, part: int, parts: int, texts: int) -> Ints:
    """Return the pairs of neighbours at a distance in the lists, each as one number."""
    same = keys[:-shift] == keys[shift:]
    one, other = owners[:-shift][same], owners[shift:][same]
    low, high = np.minimum(one, other), np.maximum(one, other)
    chosen = (low % parts == part) & (low < high)
    found: Ints = low[chosen] * texts + high[chosen]
    return found


def _keys(table: GramTable, cancelled: Callable[[], bool]) -> tuple[Ints, Hashes]:
    """Return the keys of texts: the rarest pieces that other texts have too, and keys by MinHash."""
    owners, shared = table.owners, table.counts[table.grams] > 1
    some, counts, hashes = owners[shared], table.counts[table.grams[shared]], table.hashes[shared]
    order = np.lexsort((hashes, counts, some))
    some, hashes = some[order], hashes[order]
    starts = np.searchsorted(some, np.arange(len(table)))
    rare = np.arange(len(some)) - starts[some] < _RAREST
    found = [(some[rare], mixed(hashes[rare], 4))]
    whole = np.flatnonzero(np.diff(table.starts))
    for band in range(_BANDS if len(whole) else 0):
        check_cancelled(cancelled)
        key = np.zeros(len(whole), np.uint64)
        for row in range(_ROWS):
            lowest = np.minimum.reduceat(mixed(table.hashes, 100 + band * _ROWS + row), table.starts[:-1][whole])
            key = mixed(key ^ lowest, 5 + row)
        found.append((whole.astype(np.int64), mixed(key, 1000 + band)))
    return np.concatenate([text for text, _ in found]), np.concatenate([key for _, key in found])
