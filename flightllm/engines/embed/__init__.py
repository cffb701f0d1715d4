"""Text embeddings behind one small protocol; `create_embedder` creates the configured embedder."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from flightllm.config.engine_kinds import EMBEDDERS
from flightllm.engines.embed.base import Embedder

if TYPE_CHECKING:
    from flightllm.config import EmbeddingConfig

__all__ = ["Embedder", "can_train", "create_embedder"]

_CLASSIFIER = "sklearn"


def can_train(config: EmbeddingConfig) -> bool:
    """Return whether a classifier can be trained on the model's vectors: the packages for both are installed."""
    needed = (_CLASSIFIER, EMBEDDERS[config.kind].package)
    return all(find_spec(package) is not None for package in needed if package is not None)


def create_embedder(config: EmbeddingConfig) -> Embedder:
    """Create the embedder of the module that `config.kind` names; the caller must close it.

    Raises:
        ConfigError: an option is unknown or wrong, or there is no such model.
        MissingExtraError: the embedder's optional dependencies are not installed.
        EngineUnavailableError: the embedder's engine did not start.
    """
    module = import_module(EMBEDDERS[config.kind].module)
    return cast("Embedder", module.create(config))
