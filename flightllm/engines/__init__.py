"""Inference engines behind one small protocol: `create_engine` creates an engine, `check_engine` checks its options.

Imports: common, config, errors, kvcache, llm.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

from flightllm.engines.prompt_format import format_of
from flightllm.llm.engine import Engine

if TYPE_CHECKING:
    from flightllm.config import EngineConfig

__all__ = ["Engine", "check_engine", "create_engine"]

_MODULES: Final = {
    "fake": "flightllm.engines.fake.engine",
    "local": "flightllm.engines.local.engine",
    "vllm": "flightllm.engines.vllm.engine",
    "openai": "flightllm.engines.openai.engine",
    "cluster": "flightllm.router.cluster",
    "ray": "flightllm.router.ray.engine",
}
"""The module of each kind of engine, imported on first use: most modules need an extra."""


def create_engine(config: EngineConfig) -> Engine:
    """Create the engine that `config.kind` names; the caller closes it.

    Raises:
        ConfigError: an option is unknown or wrong, or there is no such model.
        MissingExtraError: the engine's optional dependencies are not installed.
        EngineUnavailableError: the engine did not start.
    """
    module = import_module(_MODULES[config.kind])
    return cast("Engine", module.create(config))


def check_engine(config: EngineConfig) -> None:
    """Check an engine's configuration without loading its model or asking its endpoint.

    Raises:
        ConfigError: an option or the prompt format is unknown or wrong, or the API key is missing.
        MissingExtraError: the engine's optional dependencies are not installed.
    """
    import_module(_MODULES[config.kind]).check(config)
    format_of(config)
