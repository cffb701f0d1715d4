"""Give a replica that has run dry a part of what waits for another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from flightllm.router.base import Prompt
from flightllm.router.fleet import Fleet
from flightllm.router.line import Line
from flightllm.router.local_queue import LocalQueue
from flightllm.router.stretch import find_stretch

_UNSURE: Final = 0.25
"""What part of a load may be done already: prompts that are being answered count as a whole."""


def steal(fleet: Fleet, idle: int, queues: Mapping[int, LocalQueue], now: float) -> list[Prompt]:
    """Move neighbours from a queue to another replica, if both are done sooner then; return them in order.

    The queue is that of the replica with the most time left, among those with the most urgent prompts.
    """
    full = {replica: queue.urgency for replica, queue in queues.items() if replica != idle and len(queue)}
    if not full or not fleet.is_up(idle):
        return []
    urgency = min(full.values())
    owner = max((one for one in full if full[one] == urgency), key=lambda one: (fleet.load[one], -one))
    heavy, light = float(fleet.load[owner]), float(fleet.load[idle])
    if heavy - light <= _UNSURE * light:
        return []
    line = Line.of(fleet, [prompt for prompt in queues[owner].waiting() if prompt.priority == urgency])
    held = np.array([fleet.cached_tokens(p, leaf, idle) for p, leaf in zip(line.prompts, line.leaves, strict=True)])
    seconds = line.seconds(line.shared)
    again = line.token_seconds * np.maximum(0, line.shared - held)
    found = find_stretch(seconds, again, heavy, light, _UNSURE * light)
    if found is None:
        return []
    taken = line.prompts[found.start : found.end]
    share = float(np.maximum(line.shared, held)[found.start : found.end].sum()) / max(1, sum(p.count for p in taken))
    queues[owner].take(taken)
    for prompt in taken:
        fleet.finished(prompt.key)
    for prompt in taken:
        fleet.assign(prompt, fleet.insert(prompt), idle, now, share)
    return list(taken)
