"""Settings: frozen dataclasses, read from TOML, checked once at start, and passed to constructors.

Imports: common, errors, prompt_order, quality.
"""

from flightllm.config.attached import AttachedConfig
from flightllm.config.auth import AuthConfig
from flightllm.config.engine_kinds import EMBEDDERS, ENGINES
from flightllm.config.kvstore import KvStoreConfig
from flightllm.config.limits import CacheConfig, LimitsConfig
from flightllm.config.load import Config, default_data_folder, read_engine_keys
from flightllm.config.models import REPLICA_KEYS, EmbeddingConfig, EngineConfig, FunctionsConfig, ModelsConfig
from flightllm.config.observe import HttpConfig, TracingConfig
from flightllm.config.postgres import PostgresConfig
from flightllm.config.recovery import RecoveryConfig
from flightllm.config.server import LogConfig, ServerConfig
from flightllm.config.storage import ObjectStoreConfig, StorageConfig
from flightllm.config.tables import CsvFile, FolderFile, TablePlace

__all__ = [
    "EMBEDDERS",
    "ENGINES",
    "REPLICA_KEYS",
    "AttachedConfig",
    "AuthConfig",
    "CacheConfig",
    "Config",
    "CsvFile",
    "EmbeddingConfig",
    "EngineConfig",
    "FolderFile",
    "FunctionsConfig",
    "HttpConfig",
    "KvStoreConfig",
    "LimitsConfig",
    "LogConfig",
    "ModelsConfig",
    "ObjectStoreConfig",
    "PostgresConfig",
    "RecoveryConfig",
    "ServerConfig",
    "StorageConfig",
    "TablePlace",
    "TracingConfig",
    "default_data_folder",
    "read_engine_keys",
]
