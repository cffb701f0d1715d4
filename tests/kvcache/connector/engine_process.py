"""A process with a vLLM engine: reads what to start and to ask from its input, and writes what came of it.

Started by `tests.kvcache.connector.engines`; the engine is in this process, so that the connector's counts can be seen.
"""

import json
import os
import sys
from typing import Any

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"


def main() -> None:
    """Answer the rounds of prompts one after the other; then end the engine as a server does."""
    from flightllm.llm.vllm import prepare_environment

    prepare_environment()
    from vllm import LLM, SamplingParams
    from vllm.distributed.kv_transfer import kv_transfer_state

    told: dict[str, Any] = json.load(sys.stdin)
    llm = LLM(
        **told["engine"], enforce_eager=True, block_size=32, kv_cache_memory_bytes=32 << 20, disable_log_stats=True
    )
    rounds = []
    for prompts in told["rounds"]:
        sampling = [
            SamplingParams(
                max_tokens=8, temperature=0, ignore_eos=True, extra_args={"flightllm_kv_prefix": one["hint"]}
            )
            for one in prompts
        ]
        asked = [
            {"prompt_token_ids": one["tokens"], **({"cache_salt": one["salt"]} if one.get("salt") else {})}
            for one in prompts
        ]
        outputs = llm.generate(asked, sampling, use_tqdm=False)
        rounds.append([[list(one.outputs[0].token_ids), one.num_cached_tokens] for one in outputs])
    connector: Any = kv_transfer_state._KV_CONNECTOR_AGENT
    result: dict[str, Any] = {"rounds": rounds}
    llm.llm_engine.engine_core.shutdown()
    if connector is not None:
        counts = connector._saving.counts
        result |= {"saved": counts.saved, "held": counts.held, "dropped": counts.dropped, "failed": counts.failed}
        result |= {"bytes": counts.bytes, "loaded": connector._loading.tokens}
    print("RESULT " + json.dumps(result), flush=True)  # noqa: T201 - vLLM writes there too


if __name__ == "__main__":
    main()
