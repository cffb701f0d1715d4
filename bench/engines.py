"""Engines whose prefix cache is smaller than what a query sends, so that the order of prompts matters."""

from typing import Final

from bench.models import CONTEXT_TOKENS, Shape, model
from flightllm.config import EngineConfig
from flightllm.llm.supervised import SupervisedEngine
from flightllm.llm.vllm.engine import VllmEngine
from flightllm.model.engine import Engine

CACHE_BLOCKS: Final = 320
"""Blocks of 32 tokens, 10,240 in all: in 2,000 rows, the texts that prompts share have 36,000 and more."""
_BLOCK_TOKENS: Final = 32
IN_FLIGHT: Final = 16


def engine_config(kind: str, shape: Shape, blocks: int, *, prefix_cache: bool) -> EngineConfig:
    """Return an engine of this kind with a small prefix cache, or none.

    `shape` is the model of vLLM; `blocks` of its cache hold keys and values of 32 tokens each, used as prefixes or not.
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
        "max_model_len": min(CONTEXT_TOKENS, tokens - _BLOCK_TOKENS),  # one block is vLLM's own
        "engine_args": {} if shape.weights else {"load_format": "dummy"},
    }
    return EngineConfig("vllm", str(model(shape)), IN_FLIGHT, options)


def keeps_prefixes(engine: Engine) -> bool:
    """Tell whether one engine can serve several measurements, each beginning with an empty prefix cache."""
    return isinstance(_itself(engine), VllmEngine)


def _itself(engine: Engine) -> Engine | None:
    """Return the engine within the one that opens it again when it dies, as a database has it."""
    return engine.inner if isinstance(engine, SupervisedEngine) else engine


def forget_prefixes(engine: Engine) -> None:
    """Empty the prefix cache of an engine that has nothing to do.

    Raises:
        RuntimeError: the engine is not idle.
        TypeError: this kind of engine cannot; see `keeps_prefixes`.
    """
    vllm = _itself(engine)
    if not isinstance(vllm, VllmEngine):
        raise TypeError(f"{engine.name} cannot empty its prefix cache")
    # Only benchmarks ever want an empty cache, so the engine has no method for it.
    if not vllm._loop.run(vllm._engine.reset_prefix_cache()):  # noqa: SLF001
        raise RuntimeError(f"{engine.name} is not idle")
