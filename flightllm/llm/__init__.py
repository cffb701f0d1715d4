"""Inference engines behind one small protocol; `create_engine` makes the configured one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from flightllm.errors import ConfigError
from flightllm.llm.base import Engine

if TYPE_CHECKING:
    from flightllm.config import EngineConfig

__all__ = ["ENGINES", "Engine", "create_engine"]

ENGINES = ("local", "vllm", "openai", "fake")
"""Engine kinds; each is the module of that name here and offers `create(config) -> Engine`."""


def create_engine(config: EngineConfig) -> Engine:
    """Create the engine that `config.kind` names; the caller closes it.

    Raises:
        ConfigError: unknown kind, unknown or wrong option, or no such model.
        MissingExtraError: the engine's optional dependencies are not installed.
        EngineUnavailableError: the engine did not start.
    """
    if config.kind not in ENGINES:
        msg = f"[engine] kind: unknown engine {config.kind!r}; valid engines: {', '.join(ENGINES)}"
        raise ConfigError(msg)
    if config.max_in_flight < 1:
        msg = f"[engine] max_in_flight: must be at least 1, got {config.max_in_flight}"
        raise ConfigError(msg)
    module = import_module(f"flightllm.llm.{config.kind}")
    return cast("Engine", module.create(config))
