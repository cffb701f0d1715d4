"""Settings: frozen dataclasses, read from TOML and checked once at start, then passed to constructors."""

from flightllm.config.limits import CacheConfig, LimitsConfig
from flightllm.config.load import Config, default_data_folder
from flightllm.config.models import EMBEDDERS, ENGINES, EmbeddingConfig, EngineConfig, FunctionsConfig
from flightllm.config.recovery import RecoveryConfig
from flightllm.config.server import LogConfig, ServerConfig

__all__ = [
    "EMBEDDERS",
    "ENGINES",
    "CacheConfig",
    "Config",
    "EmbeddingConfig",
    "EngineConfig",
    "FunctionsConfig",
    "LimitsConfig",
    "LogConfig",
    "RecoveryConfig",
    "ServerConfig",
    "default_data_folder",
]
