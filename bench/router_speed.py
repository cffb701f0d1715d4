"""How many decisions a second does each routing policy make, with 100,000 prompts in the tree?

    python -m bench.router_speed [--repeats 5] [--replicas 64 1000 …] [--quick] [--json]

Decisions are counted in processor time on one core, and are medians of the repeats. `--quick` has 5,000 prompts in the
tree. The size of the tree and its memory are those of `e2` in the first run. There are eight replicas. With
`--replicas`, `e2` also decides for these numbers of replicas, with 32 open prompts for each.

`bench.regress` compares a median of three runs. An earlier commit measures the same with `router_sim --speed`, in one
run: its figures vary more, and are not lower or higher on average.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from bench.common import Options, options_parser, report
from bench.setting import announce
from flightllm.router.base import create_router
from flightllm.router.fleet import Fleet
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.tree import TOKEN_BYTES

_REPLICAS: Final = 8
_BLOCK_TOKENS: Final = 16
_SHARED_TOKENS, _OWN_TOKENS, _PREFIXES = 208, 96, 1_000
POLICIES: Final = ("round_robin", "least_loaded", "prefix_hash", "e2")
_PROMPTS: Final = 100_000
_QUICK_PROMPTS: Final = 5_000
_OPEN: Final = (256, 4_096)
"""The number of prompts without an answer at a time."""
_OPEN_EACH: Final = 32


def speeds(policies: Sequence[str], prompts: int) -> dict[str, float]:
    """Return each policy's decisions a second with `prompts` distinct prompts in the tree, and the memory for `e2`.

    Prompts have 304 tokens, of which 208 are one of 1,000 prefixes. All prompts are recent. Further prompts fill every
    cache first, so that each decision must predict evictions, and each answer evicts. The time of a decision includes
    the creation, insertion and end of the prompt.
    """
    figures: dict[str, float] = {}
    for policy in sorted(
        policies, key=lambda one: one != "e2"
    ):  # later policies reuse the memory that the first one freed, so `e2` is first
        for open_ in _OPEN:
            found = _speed(policy, prompts, open_)
            figures[f"{policy}, {open_} open, decisions per second"] = found.pop("decisions_per_second")
            if len(figures) == 1:
                figures.update({f"{policy}, {name}": figure for name, figure in found.items()})
    return figures


def growth(prompts: int, replicas: Sequence[int]) -> dict[str, float]:
    """Return the decisions a second of `e2` by the number of replicas, with 32 open prompts for each."""
    return {
        f"e2, {count} replicas, decisions per second": _speed("e2", prompts, _OPEN_EACH * count, count)[
            "decisions_per_second"
        ]
        for count in replicas
    }


def _speed(policy: str, prompts: int, open_: int, replicas: int = _REPLICAS) -> dict[str, float]:
    own_blocks, shared_blocks = _OWN_TOKENS // _BLOCK_TOKENS, _SHARED_TOKENS // _BLOCK_TOKENS
    blocks = (prompts * own_blocks + _PREFIXES * shared_blocks) // replicas
    before = _resident_mib()
    fleet = Fleet(_BLOCK_TOKENS, window_seconds=1e9)
    for _ in range(replicas):
        fleet.add(blocks)
    router = create_router(policy, fleet)
    coming = _prompts()
    under_way: deque[int] = deque()

    def route(count: int) -> None:
        for _ in range(count):
            prompt = next(coming)
            router.route([prompt], prompt.key / 1_000)
            under_way.append(prompt.key)
            if len(under_way) > open_:
                fleet.finished(under_way.popleft(), 16)

    route(prompts)
    while any(cache.used < blocks - own_blocks - shared_blocks for cache in fleet.caches):
        route(prompts // 10)
    gc.collect()
    held = sum(len(node.tokens) for node in fleet.tree.walk()) / TOKEN_BYTES
    memory = _resident_mib() - before
    started = time.process_time()
    route(prompts // 4)
    return {
        "decisions_per_second": prompts // 4 / (time.process_time() - started),
        "edges in the tree": fleet.tree.nodes,
        "tokens in the tree": held,
        "MiB of the tree and the fleet": memory,
    }


def _prompts() -> Iterator[RoutedPrompt]:
    random = np.random.default_rng(0)
    shared = [random.integers(0, 32_000, _SHARED_TOKENS, dtype=np.uint32).tobytes() for _ in range(_PREFIXES)]
    key = 0
    while True:
        tokens = shared[random.integers(0, _PREFIXES)] + random.integers(0, 32_000, _OWN_TOKENS, np.uint32).tobytes()
        yield RoutedPrompt(key, tokens, 16)
        key += 1


def _resident_mib() -> float:
    """Return the resident memory of this process in MiB; 0 where /proc is missing."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * 4096 / (1 << 20) if status.is_file() else 0.0


def measure(prompts: int, repeats: int, replicas: Sequence[int] = ()) -> dict[str, float]:
    """Return the figures of `speeds` for all policies; decisions a second are the median of `repeats` runs."""
    first, *more = [speeds(POLICIES, prompts) | growth(prompts, replicas) for _ in range(repeats)]
    return {
        name: median([value, *(run[name] for run in more)]) if name.endswith("per second") else value
        for name, value in first.items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with the arguments of the command line."""
    parser = options_parser("Decisions a second of routing policies.")
    parser.add_argument("--replicas", nargs="+", type=int, default=[], help="further numbers of replicas, of `e2`")
    given = parser.parse_args(arguments)
    options = Options(given.json, given.quick, given.repeats)
    announce("router_speed", arguments)
    prompts = _QUICK_PROMPTS if options.quick else _PROMPTS
    report("router_speed", options, measure(prompts, options.repeats, given.replicas))


if __name__ == "__main__":
    main()
