"""Find the best segment of prompts to move from one replica to another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Segment(NamedTuple):
    """Neighbouring prompts to move, from `start` up to but without `end`."""

    start: int
    end: int
    saved_seconds: float
    """Seconds of work that the giver saves."""
    added_seconds: float
    """Seconds of work that the taker gets."""


def find_segment(
    seconds: NDArray[np.float64], extra: NDArray[np.float64], giver_seconds: float, taker_seconds: float
) -> Segment | None:
    """Return the segment whose move lets both replicas finish soonest.

    `seconds` is the time that each prompt of the giver takes after its predecessor. `extra` is the additional time
    without this predecessor. The replicas are busy for `giver_seconds` and `taker_seconds` before the move. Return
    None if no move lets both finish sooner by more than the work that the move adds.

    For each start, the segment that takes half of the difference is the best. Its end falls between two prompts, so
    both ends are tried.

    Example: each of three prompts takes 2 s, and the second costs 1 s more without the first. The giver is busy for 6 s
    and the taker is idle. These are the segments with the earlier end:

    | start | wanted seconds    | end | saved     | added     | later one done    | work added | score |
    |-------|-------------------|-----|-----------|-----------|-------------------|------------|-------|
    | 0     | (6 - 0) / 2 = 3   | 1   | 2 - 1 = 1 | 2         | max(6 - 1, 2) = 5 | 1          | 6     |
    | 1     | (6 - 1) / 2 = 2.5 | 2   | 2         | 2 + 1 = 3 | max(6 - 2, 3) = 4 | 1          | 5     |
    | 2     | (6 - 0) / 2 = 3   | 3   | 2         | 2         | max(6 - 2, 2) = 4 | 0          | 4     |

    The last row has the least score, and no segment with a later end has less. So the third prompt moves.
    """
    count = len(seconds)
    elapsed = np.concatenate(([0.0], np.cumsum(seconds)))
    extra = np.append(extra, 0.0)  # nothing follows the last prompt
    starts = np.arange(count)
    wanted = np.maximum(0.0, (giver_seconds - taker_seconds - extra[:-1]) / 2)
    near = np.searchsorted(elapsed, elapsed[:-1] + wanted)
    best: Segment | None = None
    least_score = giver_seconds
    for ends in (np.clip(near - 1, starts + 1, count), np.clip(near, starts + 1, count)):
        # The first prompt of the segment loses its predecessor, and so does the prompt after the segment.
        saved = elapsed[ends] - elapsed[:-1] - extra[ends]
        added = elapsed[ends] - elapsed[:-1] + extra[:-1]
        score = np.maximum(giver_seconds - saved, taker_seconds + added) + np.maximum(0.0, added - saved)
        # Of equal scores the last one wins.
        start = count - 1 - int(np.argmin(score[::-1]))
        if score[start] < least_score:
            least_score = float(score[start])
            best = Segment(int(starts[start]), int(ends[start]), float(saved[start]), float(added[start]))
    return best
