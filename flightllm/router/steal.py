"""Give a replica that has run dry a part of what waits for another one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from flightllm.router.base import Prompt
from flightllm.router.fleet import Fleet
from flightllm.router.line import Line
from flightllm.router.local_queue import LocalQueue
from flightllm.router.stretch import find_stretch


def steal(fleet: Fleet, idle: int, queues: Mapping[int, LocalQueue], now: float) -> list[Prompt]:
    """Move neighbours from a queue to another replica, if both are done sooner then; return them in order.

    The queue is the one with the most time waiting in it, among those with the most urgent prompts. How far a replica
    is with what it is answering nobody knows: the one that gives is taken to be half through with it, the one that gets
    to have it all before it. So nothing is moved back and forth, and little before a replica has really run dry.
    """
    urgent = {replica: queue.urgency for replica, queue in queues.items() if replica != idle and len(queue)}
    if not urgent or not fleet.is_up(idle):
        return []
    urgency = min(urgent.values())
    chosen = [replica for replica in urgent if urgent[replica] == urgency]
    open_ = fleet.prefill + fleet.decode  # of replicas that are down too
    waits = {one: float(open_[one]) * len(queues[one]) / max(1, fleet.requests[one]) for one in chosen}
    owner = max(waits, key=lambda one: (waits[one], -one))
    light = float(open_[idle])
    answering = (float(open_[owner]) - waits[owner]) / 2
    if waits[owner] + answering < light:
        return []
    line = Line.of(fleet, [prompt for prompt in queues[owner].waiting() if prompt.priority == urgency])
    held = np.array([fleet.cached_tokens(p, leaf, idle) for p, leaf in zip(line.prompts, line.leaves, strict=True)])
    seconds = line.seconds(line.shared)
    again = line.token_seconds * np.maximum(0, line.shared - held)
    found = find_stretch(seconds, again, float(seconds.sum()) + answering, light)
    if found is None:
        return []
    taken = line.prompts[found.start : found.end]
    queues[owner].take(taken)
    for prompt in taken:
        fleet.withdrawn(prompt.key)
    for prompt in taken:
        fleet.assign(prompt, fleet.insert(prompt), idle, now)
    return list(taken)
