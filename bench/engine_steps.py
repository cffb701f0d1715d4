"""Time the steps of vLLM, for the router's simulation: seconds of a step as a function of the tokens that it computes.

    python -m bench.engine_steps [--model demo|bench|7b] [--quick] [--json]

First it measures prompts of random tokens, each computed in one step. Then it measures the decoding of several prompts
at once, with one token of each per step. The fit minimises the squares of the relative error.
"""

import argparse
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.common import Options, report
from bench.models import SHAPES, model
from flightllm.engines.vllm.engine import on_cpu, prepare_environment

_STEP_TOKENS = 2_048
_COMPUTED = (16, 64, 128, 256, 512, 1_024, 2_048)
_DECODING = (1, 2, 4, 8, 16, 32, 64)
_ANSWER_TOKENS = 16


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", choices=SHAPES, default="bench")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="one round instead of five")
    given = parser.parse_args(arguments)
    samples = measure(_engine(given.model), 1 if given.quick else 5)
    known = np.array([[1.0, computed, decoding] for computed, decoding, _ in samples])
    seconds = np.array([taken for *_, taken in samples])
    fitted, *_ = np.linalg.lstsq(known / seconds[:, None], np.ones(len(samples)), rcond=None)
    error = np.median(np.abs(known @ fitted / seconds - 1))
    figures = dict(zip(("base_ms", "computed_ms", "decoding_ms"), (fitted * 1000).tolist(), strict=True))
    medians = {
        f"step of {computed} computed, {decoding} decoding, ms": 1000
        * float(np.median([s for c, d, s in samples if (c, d) == (computed, decoding)]))
        for computed, decoding in dict.fromkeys((c, d) for c, d, _ in samples)
    }
    report(
        "engine_steps",
        Options(given.json, given.quick, 1),
        {"model": given.model, **figures, "median relative error": float(error), **medians},
    )


def measure(engine: Any, rounds: int) -> list[tuple[int, int, float]]:
    """Return samples of steps: prompt tokens computed, requests decoding, seconds."""
    from vllm import SamplingParams

    random = np.random.default_rng(0)
    names = iter(range(1 << 30))

    def add(tokens: int, answer: int) -> None:
        prompt = {"prompt_token_ids": random.integers(10, 1_000, tokens).tolist()}
        engine.add_request(str(next(names)), prompt, SamplingParams(max_tokens=answer, ignore_eos=True, temperature=0))

    samples = []
    for turn in range(rounds + 1):
        for computed in _COMPUTED:
            add(computed, 1)
            samples += [(computed, 0, _timed_step(engine))] if turn else [_none(engine)]
        for decoding in _DECODING:
            for _ in range(decoding):
                add(16, _ANSWER_TOKENS)
            engine.step()
            while engine.has_unfinished_requests():
                samples += [(0, decoding, _timed_step(engine))] if turn else [_none(engine)]
    return [one for one in samples if one[2]]


def _none(engine: Any) -> tuple[int, int, float]:
    engine.step()
    return 0, 0, 0.0


def _timed_step(engine: Any) -> float:
    started = time.perf_counter()
    engine.step()
    return time.perf_counter() - started


def _engine(name: str) -> Any:
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # run the steps in this process, so that they can be timed
    prepare_environment()
    from vllm import EngineArgs, LLMEngine

    shape = SHAPES[name]
    arguments: dict[str, Any] = {
        "model": str(model(shape)),
        "dtype": "bfloat16",
        "max_model_len": 2 * _STEP_TOKENS,
        "max_num_batched_tokens": _STEP_TOKENS,
        "enable_prefix_caching": False,
        **({} if shape.weights else {"load_format": "dummy"}),
    }
    if on_cpu():
        arguments |= {"kv_cache_memory_bytes": shape.kv_bytes(16 * _STEP_TOKENS), "block_size": 32}
        arguments |= {"enforce_eager": True}
    return LLMEngine.from_engine_args(EngineArgs(**arguments))


if __name__ == "__main__":
    main()
