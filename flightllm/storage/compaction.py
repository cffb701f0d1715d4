"""Which files at a table's end are better made one."""

from collections.abc import Sequence

_LEVELS = ((64 << 10, 2), (1 << 20, 16), (16 << 20, 16))
"""Sizes, and how many files in a row below them are too many.

Rewriting a file of up to 64 KiB costs no more than writing another one, so a small table is one file and keeps its
order in parallel queries too. Above, a row is rewritten once on each level.
"""


def files_to_merge(sizes: Sequence[int]) -> int:
    """Return how many files at the end to merge into one, given their sizes in order; 0 for none."""
    merged = 0
    for most, count in _LEVELS:
        run = next((index for index, size in enumerate(reversed(sizes)) if size >= most), len(sizes))
        if run >= count:
            merged = run
    return merged
