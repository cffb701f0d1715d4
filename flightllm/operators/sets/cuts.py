"""Cut a sequence by its content, so that a change of one item moves no cut far from it."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b

_LEAST_PART = 0.5
"""A run is cut where it has at least this part of the capacity."""


def rank(content: str, level: int) -> int:
    """Return a number that decides where a level is cut; equal items have equal numbers."""
    digest = blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8, salt=level.to_bytes(2, "little"))
    return int.from_bytes(digest.digest(), "little")


def runs(sizes: Sequence[int], ranks: Sequence[int], capacity: int) -> Iterator[range]:
    """Yield the runs of a sequence, whose sizes add up to `capacity` at most.

    Each run ends after the item of the highest rank among those at which the run is at least half full. The items
    before a run do not decide where it ends. So after an edit, the cuts soon are the same as without it. There is no
    other kind of cut: a cut at a fixed largest size would move all cuts that follow.

    Example: with the capacity 4 and six sizes of 1, the ranks 3 5 9 2 7 1 give two runs of three items.

    Raises:
        ValueError: an item is larger than the capacity.
    """
    first = 0
    while first < len(sizes):
        total, at, end = 0, first, -1
        while at < len(sizes) and total + sizes[at] <= capacity:
            total += sizes[at]
            if total >= _LEAST_PART * capacity and (end < 0 or ranks[at] > ranks[end]):
                end = at
            at += 1
        if at == first:
            raise ValueError(f"an item of {sizes[at]} is larger than {capacity}")
        if at == len(sizes):
            end = at - 1
        elif end < 0:
            end = at - 1  # the next item is larger than half of the capacity
        yield range(first, end + 1)
        first = end + 1
