"""What does a policy cost in a running vLLM, for each eviction and when nothing is evicted?

    python -m bench.eviction_speed [--policies NAME …] [--blocks 100000] [--rounds 15] [--quick] [--json]

Evictions: vLLM runs in this process with a very small model and `--blocks` blocks. Prompts of 50 call sites fill the
blocks. Each further prompt then needs blocks of earlier prompts. Overhead: engines in processes of their own, one with
vLLM's own order and one with each policy, answer the same new prompts in turns. These prompts all fit into the cache.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from statistics import fmean, median
from typing import Any, Final

from bench.common import Options, markdown, report
from bench.models import DEMO, Shape, model
from bench.setting import announce
from flightllm.config import EngineConfig
from flightllm.engines import create_engine
from flightllm.engines.vllm.engine import prepare_environment
from flightllm.engines.vllm.kv import eviction_config
from flightllm.kvcache.eviction.free_blocks import Block, FreeBlocks
from flightllm.kvcache.eviction.hint import ReuseHint
from flightllm.llm.engine import Choice, Parameters, Request, Reuse

TINY: Final = Shape("bench-1x64", layers=1, hidden=64, intermediate=128, heads=2, kv_heads=1)
BLOCK_TOKENS: Final = 32
SITES: Final = 50
_PROMPT_TOKENS: Final = 480
_SHARED_TOKENS: Final = 96
"""Tokens that all prompts of a call site begin with."""
_TOGETHER: Final = 200
_YES_OR_NO: Final = Parameters(1, 0.0, Choice(("Yes", "No")))
_WORDS: Final = ("ship", "reef", "wind", "old", "sail", "rope", "calm", "night", "coast", "north", "storm", "lamp")


def prompts(count: int, seed: int) -> Iterator[tuple[list[int], dict[str, Any]]]:
    """Yield the tokens of prompts, call site by call site in turn, with the arguments that go to vLLM with them."""
    drawn = random.Random(seed)  # noqa: S311
    for number in range(count):
        site = number % SITES
        tokens = [10 + site] * _SHARED_TOKENS
        tokens += [drawn.randrange(10, 900) for _ in range(_PROMPT_TOKENS - _SHARED_TOKENS)]
        ahead = None if site % 2 else _SHARED_TOKENS
        yield tokens, ReuseHint(f"site {site}", f"query {site}", number, ahead).extra_args()


def evict(policy: str, blocks: int) -> dict[str, float]:
    """Return the microseconds of an eviction in an engine in this process; see the module's docstring."""
    prepare_environment()
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    import vllm

    engine = vllm.LLM(
        model=str(model(TINY)),
        dtype="bfloat16",
        max_model_len=1_024,
        block_size=BLOCK_TOKENS,
        kv_cache_memory_bytes=TINY.kv_bytes(blocks * BLOCK_TOKENS),
        enforce_eager=True,
        additional_config=eviction_config(policy),
    )
    core: Any = engine.llm_engine.engine_core
    queue = core.engine_core.scheduler.kv_cache_manager.block_pool.free_block_queue
    filling = blocks * BLOCK_TOKENS // (_PROMPT_TOKENS - _SHARED_TOKENS)
    evicting = timed_evictions(queue)
    spent: list[float] = []
    asked = prompts(filling + 10 * _TOGETHER, 1)
    while some := [one for _, one in zip(range(_TOGETHER), asked, strict=False)]:
        before = len(evicting)
        sampling = [vllm.SamplingParams(max_tokens=1, extra_args=told) for _, told in some]
        engine.generate([{"prompt_token_ids": ids} for ids, _ in some], sampling, use_tqdm=False)
        if len(evicting) > before:
            spent.append(fmean(evicting[before:]))
    return {"microseconds": 1e6 * median(spent), "evictions": len(evicting), "free": queue.num_free_blocks}


def timed_evictions(queue: FreeBlocks[Any]) -> list[float]:
    """Return a list that gets the seconds of each block that the queue's policy evicts from now on."""
    seconds: list[float] = []
    evict_block = queue._evict  # noqa: SLF001 - the product does not measure itself

    def timed(now: float) -> Block:
        started = time.perf_counter()
        block: Block = evict_block(now)
        seconds.append(time.perf_counter() - started)
        return block

    vars(queue)["_evict"] = timed
    return seconds


def overhead(policies: Sequence[str], rounds: int, count: int) -> dict[str, float]:
    """Return the prompts a second of each policy as a share of vLLM's own order, when nothing is evicted."""
    names = ["none", *policies]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    with ExitStack() as stack:
        engines = {}
        for name in names:
            blocks = (rounds + 1) * count * 4
            options = {
                "kv_cache_memory_bytes": DEMO.kv_bytes(blocks * BLOCK_TOKENS),
                "block_size": BLOCK_TOKENS,
                "max_model_len": 1_024,
                "kv_eviction": name,
            }
            engines[name] = create_engine(EngineConfig("vllm", str(model(DEMO)), 64, options))
            stack.callback(engines[name].close)
        for round_ in range(rounds + 1):
            asked = list(requests(round_, count))
            for name in names if round_ % 2 else reversed(names):
                started = time.perf_counter()
                for done in engines[name].generate(iter(asked), lambda: False):
                    if done.error:
                        raise RuntimeError(done.error)
                if round_:  # the first round warms the engine up
                    seconds[name].append(time.perf_counter() - started)
    return {
        name: median(base / own for base, own in zip(seconds["none"], seconds[name], strict=True)) for name in policies
    }


def requests(seed: int, count: int) -> Iterator[Request]:
    """Yield requests with about 300 shared tokens and about 40 of their own, each answered by one choice."""
    drawn = random.Random(seed)  # noqa: S311
    shared = " ".join(drawn.choice(_WORDS) for _ in range(240))
    for number in range(count):
        prompt = f"{shared} {number} {' '.join(drawn.choice(_WORDS) for _ in range(30))}"
        reuse = Reuse("site", f"query {seed}", number, len(shared) if number + 1 < count else None)
        yield Request(
            number,
            prompt,
            Parameters(1, 0.0, Choice(("Yes", "No"))),
            "ai_filter",
            "",
            (),
            recurs=len(shared),
            reuse=reuse,
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--policies", nargs="+", default=["lru", "workload_aware", "planned"])
    parser.add_argument("--blocks", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="2,000 blocks, two rounds of a few prompts, one policy")
    parser.add_argument("--evict", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.quick:
        given.blocks, given.rounds, given.policies = 2_000, 2, given.policies[-1:]
    if given.evict:  # in a process of its own, because vLLM can run only once in a process
        print(json.dumps(evict(given.evict, given.blocks)))
        return
    announce("eviction_speed", arguments)
    found: dict[str, dict[str, float]] = {}
    for policy in given.policies:
        command = [sys.executable, "-m", "bench.eviction_speed", "--evict", policy, "--blocks", str(given.blocks)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found[policy] = json.loads(done.stdout.strip().splitlines()[-1])
    for policy, part in overhead(given.policies, given.rounds, 50 if given.quick else 400).items():
        found[policy]["throughput"] = part
    heads = {
        "µs an eviction": lambda one: f"{one['microseconds']:.1f}",
        "evictions": lambda one: f"{one['evictions']:,.0f}",
        "prompts a second, of vLLM's own": lambda one: f"{one['throughput']:.3f}",
    }
    print(markdown("policy", heads, found))
    if given.json:
        report("eviction_speed", Options(given.json, given.quick, given.rounds), found)


if __name__ == "__main__":
    main()
