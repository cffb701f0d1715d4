"""Run as a process of its own: vLLM within it answers prompts, one after the other; told and tells JSON."""

import json
import os
import sys
from typing import Any

from flightllm.engines.vllm.engine import prepare_environment
from flightllm.kvcache.eviction.free_blocks import FreeBlocks
from flightllm.kvcache.eviction.hint import ReuseHint


def main() -> None:
    """Answer the prompts on standard input; print what came of them, on the last line."""
    told = json.loads(sys.stdin.read())
    prepare_environment()
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    import vllm

    if told["version"]:
        vllm.__version__ = told["version"]
    evicted, evict = list[float](), FreeBlocks._evict

    def counted(blocks: FreeBlocks[Any], now: float) -> Any:
        evicted.append(now)
        return evict(blocks, now)

    FreeBlocks._evict = counted  # type: ignore[assignment, method-assign]
    engine = vllm.LLM(**told["engine"])
    core: Any = engine.llm_engine.engine_core
    answers, cached = [], []
    for prompt in told["prompts"]:
        hint = ReuseHint(**prompt["hint"]).extra_args()
        sampling = vllm.SamplingParams(temperature=0.0, max_tokens=2, ignore_eos=True, extra_args=hint)
        [output] = engine.generate([{"prompt_token_ids": prompt["tokens"]}], sampling, use_tqdm=False)
        answers.append(list(output.outputs[0].token_ids))
        cached.append(output.num_cached_tokens)
    queue = core.engine_core.scheduler.kv_cache_manager.block_pool.free_block_queue
    found = {"queue": type(queue).__name__, "evicted": len(evicted)}
    found |= {"free": queue.num_free_blocks, "listed": len(queue.get_all_free_blocks())}
    print(json.dumps({"answers": answers, "cached": cached, **found}))  # noqa: T201 - the parent reads it


if __name__ == "__main__":
    main()
