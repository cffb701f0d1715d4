"""Deterministic vectors without a model, for tests and benchmarks: texts with common words have similar vectors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from flightllm.engines.embed.base import Role, Vectors
from flightllm.engines.options import read_options

if TYPE_CHECKING:
    from flightllm.config import EmbeddingConfig

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class FakeEmbeddingOptions:
    """The options of the fake embedder; `dimensions` is the length of the vectors."""

    dimensions: int = 64

    def __post_init__(self) -> None:
        if self.dimensions < 1:
            raise ValueError(f"dimensions: expected at least 1, got {self.dimensions}")


class FakeEmbedder:
    """An embedder that sums a random vector per word, and normalizes the sum to length 1."""

    def __init__(self, model: str, options: FakeEmbeddingOptions) -> None:
        self._model = model
        self.dimensions = options.dimensions

    @property
    def name(self) -> str:
        """Return the kind and model."""
        return f"fake ({self._model})"

    @property
    def revision(self) -> str:
        """Return the model's name and the length of its vectors."""
        return f"fake-1 {self._model} {self.dimensions}"

    def embed(self, texts: Sequence[str], role: Role = "document") -> Vectors:
        """Return a vector per text; a text without words gets the vector of the empty word."""
        del role
        vectors = np.stack(
            [np.sum([_of_word(self._model, word, self.dimensions) for word in _words(text)], axis=0) for text in texts]
            or [np.empty(self.dimensions)]
        )[: len(texts)]
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)

    def count_tokens(self, text: str) -> int:
        """Count the words."""
        return len(_words(text))

    def close(self) -> None:
        """Do nothing."""


def create(config: EmbeddingConfig) -> FakeEmbedder:
    """Create the embedder that the configuration describes."""
    return FakeEmbedder(config.model, read_options(FakeEmbeddingOptions, "fake", config.options, section="embedding"))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower()) or [""]


@lru_cache(maxsize=65_536)
def _of_word(model: str, word: str, dimensions: int) -> Vectors:
    seed = int.from_bytes(blake2b(f"{model}\0{word}".encode(), digest_size=8).digest(), "little")
    return np.random.default_rng(seed).standard_normal(dimensions).astype(np.float32)
