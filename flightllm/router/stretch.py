"""Find the part of a replica's prompts that balances it best with another one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Stretch(NamedTuple):
    """Neighbours to move, from `start` to `end`, and the seconds that one replica loses and the other one gains."""

    start: int
    end: int
    less: float
    more: float


def find_stretch(
    seconds: NDArray[np.float64], again: NDArray[np.float64], heavy: float, light: float
) -> Stretch | None:
    """Return the neighbours after whose move both replicas are done soonest, `heavy` and `light` seconds before it.

    `seconds` is what each prompt takes behind its neighbour, `again` what is computed twice where it loses that one.
    None where no move makes both be done earlier by more than it adds to their work.
    """
    count = len(seconds)
    spent = np.concatenate(([0.0], np.cumsum(seconds)))
    cut = np.append(again, 0.0)
    starts = np.arange(count)
    wanted = np.maximum(0.0, (heavy - light - cut[:-1]) / 2)
    near = np.searchsorted(spent, spent[:-1] + wanted)
    best: Stretch | None = None
    done = heavy
    for ends in (np.clip(near - 1, starts + 1, count), np.clip(near, starts + 1, count)):
        less = spent[ends] - spent[:-1] - cut[ends]
        more = spent[ends] - spent[:-1] + cut[:-1]
        after = np.maximum(heavy - less, light + more) + np.maximum(0.0, more - less)
        place = count - 1 - int(np.argmin(after[::-1]))
        if after[place] < done:
            done = float(after[place])
            best = Stretch(int(starts[place]), int(ends[place]), float(less[place]), float(more[place]))
    return best
