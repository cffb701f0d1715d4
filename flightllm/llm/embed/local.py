"""Embeddings in this process by sentence-transformers; `minilm` comes as a package with its weights."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flightllm.errors import ConfigError, MissingExtraError
from flightllm.llm.embed.base import Role, Vectors
from flightllm.llm.embed.models import embedding_folder
from flightllm.llm.options import read_options
from flightllm.model.files import model_digest

if TYPE_CHECKING:
    from flightllm.config import EmbeddingConfig

try:
    from sentence_transformers import SentenceTransformer
except ImportError as error:
    raise MissingExtraError("the embedding engine 'local'", "vector") from error


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """Where the model runs (`auto`: the GPU where there is one), and how many texts at a time."""

    device: str = "auto"
    batch: int = 64

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError("batch: must be at least 1")


class LocalEmbedder:
    """One model; texts of one call are batched by length."""

    def __init__(self, model: str, options: LocalOptions) -> None:
        folder = embedding_folder(model)
        device = None if options.device == "auto" else options.device
        try:
            self._model: Any = SentenceTransformer(str(folder), device=device, local_files_only=True)
        except (OSError, ValueError, RuntimeError) as error:
            raise ConfigError(f"[embedding] model: {model!r} cannot be loaded: {error}") from error
        self._model.eval()
        self._batch = options.batch
        self._lock = threading.Lock()
        self.name = f"local ({model})"
        self.revision = f"st-1 {model_digest(folder)}"
        self.dimensions = int(self._model.get_embedding_dimension())

    def embed(self, texts: Sequence[str], role: Role = "document") -> Vectors:
        """Return a vector per text, computed as the model's own configuration says."""
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        encode = self._model.encode_query if role == "query" else self._model.encode_document
        with self._lock:
            vectors = encode(list(texts), batch_size=self._batch, show_progress_bar=False, convert_to_numpy=True)
        return np.asarray(vectors, np.float32)

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text, without special ones."""
        return len(self._model.tokenizer.tokenize(text))

    def close(self) -> None:
        """Forget the model."""
        self._model = None


def create(config: EmbeddingConfig) -> LocalEmbedder:
    """Load the model that the configuration names."""
    return LocalEmbedder(config.model, read_options(LocalOptions, "local", config.options, section="embedding"))
