"""Which files at a table's end to merge into one."""

from collections.abc import Sequence

_LEVELS = ((64 << 10, 2), (1 << 20, 16), (16 << 20, 16))
"""Levels of file sizes in bytes, and how many consecutive smaller files cause a merge.

Rewriting a file of up to 64 KiB costs no more than writing another file. So a small table is one file, and keeps
its row order in parallel queries too. Larger files merge on two further levels: each rewrites a row once.
"""


def files_to_merge(sizes: Sequence[int], room: int) -> int:
    """Return how many files at the end to merge into one, given all sizes in order; 0 means no merge.

    The merged file needs about the size of its parts, and must fit into `room` bytes. Else a lower level is merged, or
    nothing: a later merge tries again.

    For example `[9 MiB, 40 KiB, 30 KiB]` gives 2: the two last files are below 64 KiB.
    """
    merged = 0
    for most, count in _LEVELS:
        run = next((index for index, size in enumerate(reversed(sizes)) if size >= most), len(sizes))
        if run >= count and sum(sizes[len(sizes) - run :]) <= room:
            merged = run
    return merged
