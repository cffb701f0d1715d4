"""Move waiting prompts from a busy replica to an idle one (work stealing)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from flightllm.router.fleet import Assigned, Fleet
from flightllm.router.prefix_sorted_batch import PrefixSortedBatch
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.replica_queue import Lane
from flightllm.router.segment import find_segment


def steal(fleet: Fleet, idle: int, queues: Mapping[int, Lane], now: float) -> list[RoutedPrompt]:
    """Move neighbouring prompts from the longest queue to `idle`, if both replicas are done sooner; return the prompts.

    Only the most urgent prompts count, because less urgent prompts delay no others. The longest queue is the one with
    the most predicted seconds of such prompts.

    The progress of running prompts is unknown. The function assumes that the giver is half done with its running
    prompts, and that `idle` has not begun its own. So prompts do not move back and forth, and few move before `idle`
    has really run dry. If `idle` is down, nothing moves: queries send the prompts of a lost replica again themselves.
    """
    if not fleet.is_up(idle):
        return []
    waiting = [one for number, queue in queues.items() if number != idle for one in fleet.known(queue.waiting())]
    urgency = min((one.prompt.priority for one in waiting), default=0)
    urgent_by_replica: defaultdict[int, list[Assigned]] = defaultdict(list)
    for one in waiting:
        if one.prompt.priority == urgency:
            urgent_by_replica[one.replica].append(one)
    if not urgent_by_replica:
        return []
    waiting_seconds = {replica: sum(one.seconds for one in found) for replica, found in urgent_by_replica.items()}
    giver = max(waiting_seconds, key=lambda replica: (waiting_seconds[replica], -replica))
    ahead = fleet.ahead(urgency)
    idle_seconds, running_seconds = float(ahead[idle]), float(ahead[giver] - waiting_seconds[giver]) / 2
    if waiting_seconds[giver] + running_seconds < idle_seconds:
        return []
    batch = PrefixSortedBatch.of(fleet, [one.prompt for one in urgent_by_replica[giver]])
    cached = np.array([fleet.cached_tokens(p, leaf, idle) for p, leaf in zip(batch.prompts, batch.leaves, strict=True)])
    seconds = batch.seconds(batch.shared_tokens)
    # A prompt without its predecessor costs nothing extra for the tokens that `idle` has cached.
    extra = batch.seconds_per_cached_token * np.maximum(0, batch.shared_tokens - cached)
    segment = find_segment(seconds, extra, float(seconds.sum()) + running_seconds, idle_seconds)
    if segment is None:
        return []
    taken = batch.prompts[segment.start : segment.end]
    queues[giver].take(taken)
    for prompt in taken:
        fleet.withdrawn(prompt.key)
    for prompt in taken:
        fleet.assign(prompt, fleet.insert(prompt), idle, now)
    return list(taken)
