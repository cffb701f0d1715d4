"""Cut a list of prompts into batches that share a prefix, so that the fewest tokens are computed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from flightllm.common.text import shared_start

_LAUNCH_TOKENS = 48
"""The cost of one more forward pass, in tokens: measured with a 5M model on a CPU; only the magnitude matters."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch: the prompts `start` to `stop` (exclusive), which share their first `prefix` tokens."""

    start: int
    stop: int
    prefix: int


def best_order(prompts: Sequence[Sequence[int]]) -> Sequence[int]:
    """Return the places of prompts in the order in which neighbours share the most tokens: as given, or sorted.

    Example: of `[[1, 2], [3], [1, 2, 4]]`, the order is 0, 2, 1, because then two prompts share two tokens.
    """
    given = range(len(prompts))
    ordered = sorted(given, key=lambda place: list(prompts[place]))
    return ordered if _shared(prompts, ordered) > _shared(prompts, given) else given


def _shared(prompts: Sequence[Sequence[int]], order: Sequence[int]) -> int:
    """Return how many tokens prompts share with the prompt before, in an order."""
    return sum(shared_start(prompts[before], prompts[after]) for before, after in pairwise(order))


def plan_batches(prompts: Sequence[Sequence[int]], rows: int, tokens: int, kept: Sequence[int] = ()) -> list[Batch]:
    """Cut `prompts`, in order, into batches of at most `rows` prompts and `rows × longest` ≤ `tokens`.

    Dynamic programming over the cuts minimizes the computed tokens, padding included, plus a fixed cost per batch.
    `kept` are tokens whose keys and values exist already. The prefix of a batch of one prompt is the start that it
    shares with the prompt before, or with `kept`.
    """
    count = len(prompts)
    befores = [kept, *prompts[:-1]]
    shared = [shared_start(before, prompt) for before, prompt in zip(befores, prompts, strict=False)]
    best: list[tuple[int, Batch | None]] = [(0, None)] * (count + 1)
    for start in range(count - 1, -1, -1):
        best[start] = _best_batch(
            start, [len(prompt) for prompt in prompts[start : start + rows]], shared, tokens, best
        )
    batches = []
    position = 0
    while (batch := best[position][1]) is not None:
        batches.append(batch)
        position = batch.stop
    return batches


def _best_batch(
    start: int,
    lengths: Sequence[int],
    shared: Sequence[int],
    tokens: int,
    best: Sequence[tuple[int, Batch | None]],
) -> tuple[int, Batch]:
    """Return the least total cost from `start` to the end, and the first batch of that plan."""
    alone = min(shared[start], lengths[0] - 1)
    chosen = (
        _LAUNCH_TOKENS + lengths[0] - alone + best[start + 1][0],
        Batch(start, start + 1, alone),
    )
    prefix = shortest = longest = lengths[0]
    for size in range(2, len(lengths) + 1):
        shortest = min(shortest, lengths[size - 1])
        longest = max(longest, lengths[size - 1])
        prefix = min(prefix, shared[start + size - 1], shortest - 1)
        if size * longest > tokens:
            break
        computed = prefix - min(prefix, shared[start]) + size * (longest - prefix)
        cost = _LAUNCH_TOKENS + computed + best[start + size][0]
        if cost < chosen[0]:
            chosen = (cost, Batch(start, start + size, prefix))
    return chosen


def branchings(paths: Sequence[Sequence[int]]) -> Mapping[tuple[int, ...], Mapping[int, int]]:
    """Return the prefixes after which token sequences differ, with the next token of each sequence by its number."""
    found: dict[tuple[int, ...], dict[int, int]] = defaultdict(dict)
    for number, path in enumerate(paths):
        for length, token in enumerate(path):
            found[tuple(path[:length])][number] = token
    return {prefix: following for prefix, following in found.items() if len(set(following.values())) > 1}
