"""Decisions a second of routing policies, with many prompts in the tree."""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from flightllm.router.base import Prompt, create_router
from flightllm.router.fleet import Fleet
from flightllm.router.tree import TOKEN_BYTES

_REPLICAS: Final = 8
_BLOCK_TOKENS: Final = 16
_SHARED_TOKENS, _OWN_TOKENS, _PREFIXES = 208, 96, 1_000
_OPEN: Final = 256
"""Prompts under way."""


def speeds(policies: Sequence[str], prompts: int) -> dict[str, float]:
    """Return for each policy decisions a second with so many distinct prompts in the tree, and the tree's memory.

    Prompts have 304 tokens, of which 208 are one of 1,000 prefixes, and all are recent. The caches are full, so that
    each decision has to foresee evictions. A decision is counted with the prompt's making, insertion and end.
    """
    figures: dict[str, float] = {}
    for policy in policies:
        found = _speed(policy, prompts)
        figures[f"{policy}, decisions per second"] = found.pop("decisions_per_second")
        if len(figures) == 1:  # later ones use the memory that the first has freed
            figures.update(found)
    return figures


def _speed(policy: str, prompts: int) -> dict[str, float]:
    random = np.random.default_rng(0)
    shared = [random.integers(0, 32_000, _SHARED_TOKENS, dtype=np.uint32).tobytes() for _ in range(_PREFIXES)]
    own_blocks = _OWN_TOKENS // _BLOCK_TOKENS
    blocks = prompts * own_blocks // _REPLICAS + _PREFIXES * (_SHARED_TOKENS // _BLOCK_TOKENS)
    before = _resident_mib()
    fleet = Fleet(_BLOCK_TOKENS, window_seconds=1e9)
    for _ in range(_REPLICAS):
        fleet.add(blocks)
    router = create_router(policy, fleet)
    under_way: deque[int] = deque()
    timed = prompts // 4
    started = memory = held = 0.0
    for key in range(prompts + timed):
        if key == prompts:
            gc.collect()
            held = sum(len(node.tokens) for node in fleet.tree.walk()) / TOKEN_BYTES
            memory = _resident_mib() - before
            started = time.process_time()
        tokens = shared[random.integers(0, _PREFIXES)] + random.integers(0, 32_000, _OWN_TOKENS, np.uint32).tobytes()
        router.route([Prompt(key, tokens, 16)], key / 1_000)
        under_way.append(key)
        if len(under_way) > _OPEN:
            fleet.finished(under_way.popleft(), 16)
    seconds = time.process_time() - started
    return {
        "decisions_per_second": timed / seconds,
        "edges in the tree": fleet.tree.nodes,
        "tokens in the tree": held,
        "MiB of the tree and the fleet": memory,
    }


def _resident_mib() -> float:
    """Return the memory of this process, where the system tells it."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * 4096 / (1 << 20) if status.is_file() else 0.0
