"""A process with a vLLM engine: reads what to start and to ask from its input, and writes what came of it.

The engine's core is in this process, so that the connector's counts can be seen; its end is a server's.
"""

import json
import os
import sys
from typing import Any

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"

KV_BYTES = 32 << 20
OWN = {"enforce_eager": True, "block_size": 32, "kv_cache_memory_bytes": KV_BYTES, "disable_log_stats": True}


def main() -> None:
    """Answer the rounds of prompts one after the other; then end the engine."""
    from flightllm.engines.vllm.engine import prepare_environment

    prepare_environment()
    from vllm import LLM
    from vllm.distributed.kv_transfer import kv_transfer_state

    told: dict[str, Any] = json.load(sys.stdin)
    llm = LLM(**OWN, **told["engine"])
    rounds = [answer(llm, prompts) for prompts in told["rounds"]]
    connector: Any = kv_transfer_state._KV_CONNECTOR_AGENT
    llm.llm_engine.engine_core.shutdown()
    result: dict[str, Any] = {"rounds": rounds}
    if connector is not None:
        counts = connector._saving.counts
        result |= {name: getattr(counts, name) for name in counts.__slots__}
        result |= {"loaded": connector._loading.tokens}
    sys.stdout.write(f"RESULT {json.dumps(result)}\n")


def answer(llm: Any, prompts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each prompt the tokens that follow, and how many of its own were not computed."""
    from vllm import SamplingParams

    asked = [
        {"prompt_token_ids": one["tokens"]} | ({"cache_salt": one["salt"]} if one["salt"] else {}) for one in prompts
    ]
    sampling = [
        SamplingParams(max_tokens=8, temperature=0, ignore_eos=True, extra_args={"flightllm_kv_prefix": one["hint"]})
        for one in prompts
    ]
    outputs = llm.generate(asked, sampling, use_tqdm=False)
    return [{"tokens": list(one.outputs[0].token_ids), "cached": one.num_cached_tokens} for one in outputs]


if __name__ == "__main__":
    main()
