"""Text embeddings behind one small protocol; `create_embedder` makes the configured one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from flightllm.llm.embed.base import Embedder

if TYPE_CHECKING:
    from flightllm.config import EmbeddingConfig

__all__ = ["Embedder", "create_embedder"]


def create_embedder(config: EmbeddingConfig) -> Embedder:
    """Create the embedder that `config.kind` names, by the module of that name here; the caller closes it.

    Raises:
        ConfigError: unknown or wrong option, or no such model.
        MissingExtraError: its optional dependencies are not installed.
        EngineUnavailableError: its engine did not start.
    """
    module = import_module(f"flightllm.llm.embed.{config.kind}")
    return cast("Embedder", module.create(config))
