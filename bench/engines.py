"""Engines whose prefix cache is smaller than what a query sends, so that the order of prompts matters."""

from typing import Final

from bench.models import Shape, model
from flightllm.config import EngineConfig
from flightllm.llm.base import Engine
from flightllm.llm.vllm import VllmEngine

CACHE_TOKENS: Final = 10_240
"""320 blocks of 32 tokens; the texts that the prompts of one query share have some 30,000 and more."""
IN_FLIGHT: Final = 16


def engine_config(kind: str, shape: Shape, *, prefix_cache: bool) -> EngineConfig:
    """Return an engine of this kind with a small prefix cache, or none; of vLLM with a model of this shape."""
    if kind == "fake":
        return EngineConfig("fake", options={"cache_blocks": CACHE_TOKENS // 16 if prefix_cache else 0})
    if kind != "vllm":
        return EngineConfig(kind)
    options: dict[str, object] = {
        "kv_cache_memory_bytes": shape.kv_bytes(CACHE_TOKENS),
        "enable_prefix_caching": prefix_cache,
        "dtype": "bfloat16",
        "engine_args": {} if shape.weights else {"load_format": "dummy"},
    }
    return EngineConfig("vllm", str(model(shape)), IN_FLIGHT, options)


def keeps_prefixes(engine: Engine) -> bool:
    """Tell whether one engine can serve several measurements, each beginning with an empty prefix cache."""
    return isinstance(engine, VllmEngine)


def forget_prefixes(engine: Engine) -> None:
    """Empty the prefix cache of an engine that has nothing to do.

    Raises:
        RuntimeError: the engine is not idle.
        TypeError: this kind of engine cannot; see `keeps_prefixes`.
    """
    if not isinstance(engine, VllmEngine):
        raise TypeError(f"{engine.name} cannot empty its prefix cache")
    vllm = engine._engine  # noqa: SLF001 - only benchmarks ever want an empty cache, so the engine has no method for it
    if not engine._loop.run(vllm.reset_prefix_cache()):  # noqa: SLF001
        raise RuntimeError(f"{engine.name} is not idle")
