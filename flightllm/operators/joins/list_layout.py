"""Which values share a prompt: lists of the labels of one side, each with one or some values of the other side.

Values whose candidates are the same labels share their lists. Labels and values are in the order of their numbers,
which follow hashes of their content: the order of rows decides nothing. Prompts with one list follow one another.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flightllm.operators.joins.candidates import AllPairs, Candidates, SomePairs
from flightllm.operators.joins.values import Ints


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much a prompt takes: the most labels and other values, and the tokens for all labels and for each other."""

    labels: int
    others: int
    label_tokens: int
    other_tokens: int


@dataclass(frozen=True, slots=True)
class Shown:
    """The values of one prompt, by number."""

    labels: Ints
    others: Ints
    first: bool
    """Whether these are the first labels that the others are shown with."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The prompts about the candidates. `left` says whether the labels are the values of the left side."""

    candidates: Candidates
    left: bool
    tokens: Ints
    """The tokens of each value, by number."""
    sizes: Sizes
    symmetric: bool

    def prompts(self) -> Iterator[Shown]:
        """Yield the prompts; those with the same labels follow one another."""
        for labels, others in self.groups():
            known = np.flatnonzero(self.tokens[labels] <= self.sizes.label_tokens)
            short = others[self.tokens[others] <= self.sizes.other_tokens]
            for at, some in enumerate(self._lists(labels[known])):
                for start in range(0, len(short), self.sizes.others):
                    shown = Shown(some, short[start : start + self.sizes.others], at == 0)
                    if not self._covered(shown):
                        yield shown

    def too_long(self) -> Iterator[Ints]:
        """Yield the pairs that no prompt has, because a value is longer than its place."""
        for labels, others in self.groups():
            long_label = self.tokens[labels] > self.sizes.label_tokens
            long_other = self.tokens[others] > self.sizes.other_tokens
            for label in labels[long_label]:
                yield self.pairs(np.asarray([label]), others)
            for other in others[long_other]:
                yield self.pairs(labels[~long_label], np.asarray([other]))

    def pairs(self, labels: Ints, others: Ints) -> Ints:
        """Return the numbers of all pairs of some labels and some others."""
        count = len(self.tokens)
        if self.left:
            return (labels[:, None] * count + others[None, :]).ravel()
        return (others[None, :] * count + labels[:, None]).ravel()

    def _lists(self, labels: Ints) -> Iterator[Ints]:
        """Yield the labels of each list."""
        start, held = 0, 0
        for at, tokens in enumerate(self.tokens[labels].tolist()):
            if at - start == self.sizes.labels or held + tokens > self.sizes.label_tokens:
                yield labels[start:at]
                start, held = at, 0
            held += tokens
        if start < len(labels):
            yield labels[start:]

    def groups(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield labels and the others of which all these labels are the candidates, both in their order."""
        candidates = self.candidates
        if isinstance(candidates, AllPairs):
            sides = (candidates.left, candidates.right) if self.left else (candidates.right, candidates.left)
            yield sides
            return
        labels, others = _split(candidates, len(self.tokens), left=self.left)
        order = np.lexsort((labels, others))
        labels, others = labels[order], others[order]
        starts = np.flatnonzero(np.diff(others, prepend=-1))
        ends = np.append(starts[1:], len(others))
        places: dict[bytes, list[int]] = {}
        for place, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            places.setdefault(labels[start:end].tobytes(), []).append(place)
        for same in places.values():
            yield labels[starts[same[0]] : ends[same[0]]], others[starts[same]]

    def _covered(self, shown: Shown) -> bool:
        """Return whether other prompts ask about the reverse of each pair."""
        if not self.symmetric:
            return False
        labels, others = shown.labels[:, None], shown.others[None, :]
        return bool((labels < others).all() and self._reversed(shown).all())

    def _reversed(self, shown: Shown) -> NDArray[np.bool_]:
        """Return for each pair of a prompt whether its reverse is a candidate."""
        turned = np.sort(self.pairs(shown.others, shown.labels))
        candidates, count = self.candidates, len(self.tokens)
        if isinstance(candidates, AllPairs):
            return _within(turned // count, candidates.left) & _within(turned % count, candidates.right)
        return _within(turned, _all_pairs(candidates))


def _all_pairs(candidates: Candidates) -> Ints:
    if not isinstance(candidates, SomePairs):
        raise TypeError(candidates)
    return candidates.pairs


def _within(numbers: Ints, ascending: Ints) -> NDArray[np.bool_]:
    places = np.minimum(np.searchsorted(ascending, numbers), len(ascending) - 1)
    return np.asarray(ascending[places] == numbers)


def _split(candidates: Candidates, count: int, *, left: bool) -> tuple[Ints, Ints]:
    """Return the label and the other value of each candidate."""
    pairs = _all_pairs(candidates)
    one, other = pairs // count, pairs % count
    return (one, other) if left else (other, one)


def prompts_about(candidates: Candidates, count: int, sizes: Sizes, *, left: bool, symmetric: bool) -> int:
    """Return about how many prompts there are, of `count` values in all, if no value is too long."""
    if isinstance(candidates, AllPairs):
        labels, others = len(candidates.left), len(candidates.right)
        labels, others = (labels, others) if left else (others, labels)
        found = -(-labels // sizes.labels) * -(-others // sizes.others)
        shared = len(np.intersect1d(candidates.left, candidates.right)) if symmetric else 0
        return found - found * shared * (shared - 1) // (2 * max(1, candidates.distinct))
    layout = Layout(candidates, left, np.zeros(count, np.int64), sizes, symmetric)
    return sum(-(-len(labels) // sizes.labels) * -(-len(others) // sizes.others) for labels, others in layout.groups())


def fitting(most: Sequence[tuple[int, int, int]], labels: Ints, others: Ints) -> Sizes | None:
    """Return the sizes of the fullest prompts that fit the model's context; None if it is too small.

    `most` has numbers of labels and of other values, with the tokens that a prompt leaves for them. `labels` and
    `others` are the tokens of values. The longest other value takes at most its part of half of a prompt.
    """
    best: tuple[float, Sizes] | None = None
    usual, longest = max(1, int(np.median(labels))), 1 << max(0, int(others.max()) - 1).bit_length()
    for count, beside, room in most:
        each = min(longest, room // (2 * beside))
        left = room - each * beside
        full = min(count, left / usual) * beside
        if each > 0 and left > 0 and (best is None or full > best[0]):
            best = full, Sizes(count, beside, left, each)
    return None if best is None else best[1]
