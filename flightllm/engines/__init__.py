"""Inference engines behind one small protocol: `create_engine` creates an engine, `check_engine` checks its options.

Imports: common, config, errors, kvcache, llm, quality.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from flightllm.config.engine_kinds import ENGINES
from flightllm.engines.prompt_format import format_of
from flightllm.llm.engine import Engine

if TYPE_CHECKING:
    from flightllm.config import EngineConfig

__all__ = ["Engine", "check_engine", "create_engine"]


def create_engine(config: EngineConfig) -> Engine:
    """Create the engine that `config.kind` names; the caller closes it.

    Raises:
        ConfigError: an option is unknown or wrong, or there is no such model.
        MissingExtraError: the engine's optional dependencies are not installed.
        EngineUnavailableError: the engine did not start.
    """
    module = import_module(ENGINES[config.kind].module)
    return cast("Engine", module.create(config))


def check_engine(config: EngineConfig) -> None:
    """Check an engine's configuration without loading its model or asking its endpoint.

    Raises:
        ConfigError: an option or the prompt format is unknown or wrong, or the API key is missing.
        MissingExtraError: the engine's optional dependencies are not installed.
    """
    import_module(ENGINES[config.kind].module).check(config)
    format_of(config)
