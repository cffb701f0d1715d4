"""Inference engines behind one small protocol; `create_engine` makes one, `check_engine` only looks at its options."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from flightllm.llm.base import Engine
from flightllm.llm.formats import format_of

if TYPE_CHECKING:
    from flightllm.config import EngineConfig

__all__ = ["Engine", "check_engine", "create_engine"]


def create_engine(config: EngineConfig) -> Engine:
    """Create the engine that `config.kind` names, by the module of that name here; the caller closes it.

    Raises:
        ConfigError: unknown or wrong option, or no such model.
        MissingExtraError: the engine's optional dependencies are not installed.
        EngineUnavailableError: the engine did not start.
    """
    module = import_module(f"flightllm.llm.{config.kind}")
    return cast("Engine", module.create(config))


def check_engine(config: EngineConfig) -> None:
    """Check what can be checked of an engine without loading its model or asking its endpoint.

    Raises:
        ConfigError: unknown or wrong option, no such prompt format, or a key that is not where the options say.
        MissingExtraError: the engine's optional dependencies are not installed.
    """
    import_module(f"flightllm.llm.{config.kind}").check(config)
    format_of(config)
