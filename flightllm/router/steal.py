"""Move waiting prompts from a loaded replica to a replica that has run dry."""

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
    """Move neighbouring prompts from a queue to the replica `idle` if both replicas then finish earlier.

    Return the moved prompts in order. The source is the queue with the most predicted seconds of the most urgent
    prompts; less urgent prompts do not count, because they delay no other prompt.

    The progress of prompts in flight is unknown. The source counts as half done with its prompts in flight, and `idle`
    as not begun. So prompts do not move back and forth, and few move before a replica has really run dry. The prompts
    of a lost replica are not moved: their query sends them again.
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
