"""Engines whose prefix cache is smaller than a query's prompts, so that the order of prompts matters."""

from typing import Final

from bench.models import CONTEXT_TOKENS, Shape, model
from flightllm.config import EngineConfig
from flightllm.engines.supervised import SupervisedEngine
from flightllm.engines.vllm.engine import VllmEngine
from flightllm.llm.engine import Engine

CACHE_BLOCKS: Final = 320
"""Blocks of 32 tokens, 10,240 tokens in all. The texts shared by the prompts of 2,000 rows have at least 36,000
tokens.
"""
_BLOCK_TOKENS: Final = 32
IN_FLIGHT: Final = 16


def engine_config(kind: str, shape: Shape, blocks: int, *, prefix_cache: bool) -> EngineConfig:
    """Return the configuration of an engine with a small prefix cache, or without a prefix cache.

    `shape` is vLLM's model. Each of the `blocks` of its KV cache holds the keys and values of 32 tokens. The number of
    blocks is the same with and without the prefix cache.
    """
    tokens = blocks * _BLOCK_TOKENS
    if kind == "fake":
        return EngineConfig("fake", options={"cache_blocks": tokens // 16 if prefix_cache else 0})
    if kind != "vllm":
        return EngineConfig(kind)
    options: dict[str, object] = {
        "kv_cache_memory_bytes": shape.kv_bytes(tokens),
        "enable_prefix_caching": prefix_cache,
        "dtype": "bfloat16",
        "max_model_len": min(CONTEXT_TOKENS, tokens - _BLOCK_TOKENS),  # vLLM reserves one block
        "engine_args": {} if shape.weights else {"load_format": "dummy"},
    }
    return EngineConfig("vllm", str(model(shape)), IN_FLIGHT, options)


def keeps_prefixes(engine: Engine) -> bool:
    """Return whether one engine can serve several measurements, each of which begins with an empty prefix cache."""
    return isinstance(_itself(engine), VllmEngine)


def _itself(engine: Engine) -> Engine | None:
    """Return the engine inside the wrapper that restarts a dead engine. A database always wraps its engine."""
    return engine.inner if isinstance(engine, SupervisedEngine) else engine


def forget_prefixes(engine: Engine) -> None:
    """Empty the prefix cache of an idle engine.

    Raises:
        RuntimeError: the engine is not idle.
        TypeError: this kind of engine cannot empty its prefix cache; see `keeps_prefixes`.
    """
    vllm = _itself(engine)
    if not isinstance(vllm, VllmEngine):
        raise TypeError(f"the engine {engine.name} cannot empty its prefix cache")
    # Only benchmarks need an empty cache, so the engine has no method that empties it.
    if not vllm._loop.run(vllm._engine.reset_prefix_cache()):  # noqa: SLF001
        raise RuntimeError(f"the engine {engine.name} is not idle: wait for its requests before you empty its cache")
