"""Log the start of vLLM, its progress and its result: a start takes minutes, and vLLM's own log is off."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import structlog

_log = structlog.get_logger(__name__)

_EVERY_SECONDS = 15.0


@contextmanager
def telling_of_start(model: str, every: float = _EVERY_SECONDS, **settings: object) -> Iterator[Callable[[Any], None]]:
    """Log the start of an engine, and every `every` seconds that it is still starting, until the block ends.

    The block gets a function, which it must call with vLLM's configuration once the engine is up.
    """
    begun, ended = time.monotonic(), Event()

    def seconds() -> float:
        return round(time.monotonic() - begun, 1)

    def tell() -> None:
        while not ended.wait(every):
            _log.info("vllm_still_starting", model=model, seconds=seconds())

    def up(config: Any) -> None:
        _log.info("vllm_started", model=model, seconds=seconds(), **_figures(config))

    _log.info("vllm_starting", model=model, **settings)
    thread = Thread(target=tell, name="vllm-start", daemon=True)
    thread.start()
    try:
        yield up
    finally:
        ended.set()
        thread.join()


def _figures(config: Any) -> dict[str, object]:
    """Return the sizes that vLLM chose, in tokens: the KV cache, a prompt with its answer, and one step."""
    cache = config.cache_config
    return {
        "dtype": str(config.model_config.dtype).removeprefix("torch."),
        "kv_cache_tokens": (cache.num_gpu_blocks or 0) * cache.block_size,
        "context_tokens": config.model_config.max_model_len,
        "batched_tokens": config.scheduler_config.max_num_batched_tokens,
    }
