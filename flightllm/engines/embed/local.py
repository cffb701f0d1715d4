"""Embeddings in this process with sentence-transformers; the model `minilm` is a Python package with weights."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flightllm.engines.embed.base import Role, Vectors
from flightllm.engines.embed.models import embedding_folder
from flightllm.engines.options import read_options
from flightllm.errors import ConfigError, MissingExtraError
from flightllm.llm.files import model_digest

if TYPE_CHECKING:
    from flightllm.config import EmbeddingConfig

try:
    from sentence_transformers import SentenceTransformer
except ImportError as error:
    raise MissingExtraError("the embedding engine 'local'", "vector") from error


@dataclass(frozen=True, slots=True)
class LocalEmbeddingOptions:
    """The model's device (`auto`: the GPU, if there is a GPU), and the number of texts in a batch."""

    device: str = "auto"
    batch: int = 64

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"batch: expected at least 1, got {self.batch}")


class LocalEmbedder:
    """An embedder with one sentence-transformers model, which batches the texts of a call by length."""

    def __init__(self, model: str, options: LocalEmbeddingOptions) -> None:
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
        """Return a vector per text; the model's configuration sets the pooling and the prompts for each role."""
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        encode = self._model.encode_query if role == "query" else self._model.encode_document
        with self._lock:
            vectors = encode(list(texts), batch_size=self._batch, show_progress_bar=False, convert_to_numpy=True)
        return np.asarray(vectors, np.float32)

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text, without special tokens."""
        return len(self._model.tokenizer.tokenize(text))

    def close(self) -> None:
        """Release the model."""
        self._model = None


def create(config: EmbeddingConfig) -> LocalEmbedder:
    """Load the model that the configuration names."""
    return LocalEmbedder(
        config.model, read_options(LocalEmbeddingOptions, "local", config.options, section="embedding")
    )
