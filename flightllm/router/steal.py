"""Give a replica that has run dry a part of what waits for another one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from flightllm.router.base import Prompt
from flightllm.router.fleet import Assigned, Fleet
from flightllm.router.line import Line
from flightllm.router.local_queue import LocalQueue
from flightllm.router.stretch import find_stretch


def steal(fleet: Fleet, idle: int, queues: Mapping[int, LocalQueue], now: float) -> list[Prompt]:
    """Move neighbours from a queue to another replica, if both are done sooner then; return them in order.

    The queue is the one with the most time waiting in it, of the most urgent prompts; less urgent work is in nobody's
    way. How far a replica is with what it is answering nobody knows: the one that gives is taken to be half through
    with it, the one that gets to have it all before it. So nothing is moved back and forth, and little before a replica
    has really run dry. What a lost replica leaves is its query's to send again.
    """
    if not fleet.is_up(idle):
        return []
    waiting = [one for number, queue in queues.items() if number != idle for one in fleet.known(queue.waiting())]
    urgency = min((one.prompt.priority for one in waiting), default=0)
    urgent: defaultdict[int, list[Assigned]] = defaultdict(list)
    for one in waiting:
        if one.prompt.priority == urgency:
            urgent[one.replica].append(one)
    if not urgent:
        return []
    waits = {replica: sum(one.seconds for one in found) for replica, found in urgent.items()}
    owner = max(waits, key=lambda replica: (waits[replica], -replica))
    ahead = fleet.ahead(urgency)
    light, answering = float(ahead[idle]), float(ahead[owner] - waits[owner]) / 2
    if waits[owner] + answering < light:
        return []
    line = Line.of(fleet, [one.prompt for one in urgent[owner]])
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
