"""Provide the embedding model and the vector indexes, which answer the calls that no language model answers."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from importlib.util import find_spec
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from flightllm.config import EmbeddingConfig, LimitsConfig, RecoveryConfig
from flightllm.config.engine_kinds import EMBEDDERS
from flightllm.engines.embed.base import Embedder, Role, Vectors
from flightllm.engines.embed.engine import vector_of, vector_text
from flightllm.engines.embed.supervised import SupervisedEmbedder
from flightllm.engines.extras import EngineExtras, ForwardedExtras, T, extras_of
from flightllm.engines.prices import embedding_prices_of
from flightllm.llm.cost import Costs
from flightllm.llm.engine import Completion, Engine, PrefixCache, Request
from flightllm.operators.answer_store import AnswerStore
from flightllm.operators.searches import Searcher
from flightllm.vector.store import VectorIndexes

_LOAD_SECONDS = 15.0
"""A model on this machine takes this long to load, or longer, with the packages that run it."""


class Backends:
    """The embedding model and searcher, made at first use: a model takes seconds to load. Thread-safe."""

    def __init__(
        self,
        config: EmbeddingConfig,
        recovery: RecoveryConfig,
        limits: LimitsConfig,
        indexes: VectorIndexes,
        cache: AnswerStore,
    ) -> None:
        self._config = config
        self._recovery = recovery
        self._limits = limits
        self._indexes = indexes
        self._cache = cache
        self._lock = Lock()
        self._embedder: SupervisedEmbedder | None = None

    def embeddings(self) -> tuple[Engine, int]:
        """Return the engine for calls of the embedding model, and how many calls it takes at once.

        Raises:
            ConfigError: the embedding model cannot be loaded.
            MissingExtraError: the extra `vector` is not installed.
        """
        return self.embedder().engine, self._config.max_in_flight

    def late_embeddings(self, *, checked: bool = True) -> tuple[Engine, int]:
        """Return the same engine; its model is loaded at the first text, or at the first question about the model.

        Raises:
            MissingExtraError: the extra of the embedding model is not installed. If not `checked`, the engine says so.
        """
        package = EMBEDDERS[self._config.kind].package
        if checked and package is not None and find_spec(package) is None:
            self.embedder()
        elsewhere = EMBEDDERS[self._config.kind].elsewhere
        return _LateEngine(
            lambda: self.embedder().engine,
            lambda: 0.0 if elsewhere or self.kind is not None else _LOAD_SECONDS,
        ), self._config.max_in_flight

    @property
    def costs(self) -> Costs:
        """The costs of the embedding model: the prices of a hosted one, where they are known."""
        return Costs(embedding_prices_of(self._config))

    def searcher(self) -> Searcher:
        """Return the service that answers searches.

        Raises:
            MissingExtraError: the extra `vector` is not installed.
        """
        from flightllm.execution.index_condition import matching  # needs the extra, as the next import does
        from flightllm.vector.engine import IndexSearcher

        return IndexSearcher(
            self._indexes, embed_kept(self.embedder, self._cache), partial(matching, limits=self._limits)
        )

    def embedder(self) -> SupervisedEmbedder:
        """Return the embedding model; it is loaded once, and loaded again after it dies."""
        with self._lock:
            if self._embedder is None:
                self._embedder = SupervisedEmbedder(self._config, self._recovery)
            return self._embedder

    @property
    def kind(self) -> str | None:
        """Return the kind of the embedding model; None before its first use."""
        with self._lock:
            return None if self._embedder is None else self._config.kind

    def close(self) -> None:
        """Release the embedding model. Idempotent."""
        with self._lock:
            if self._embedder is not None:
                self._embedder.close()
                self._embedder = None


class _LateEngine(ForwardedExtras):
    """The engine of the embedding model, which is opened when a query first needs it. Thread-safe.

    A query with a promise names the model as a proxy, and often needs no vector: its table is empty, or few rows are
    there.
    """

    def __init__(self, opened: Callable[[], Engine], load_seconds: Callable[[], float]) -> None:
        self._opened = opened
        self._load_seconds = load_seconds

    @property
    def load_seconds(self) -> float:
        """For about how many seconds the first text waits for the model."""
        return self._load_seconds()

    @property
    def name(self) -> str:
        return self._opened().name

    @property
    def revision(self) -> str:
        return self._opened().revision

    @property
    def prefix_cache(self) -> PrefixCache | None:
        return self._opened().prefix_cache

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        return self._opened().generate(requests, cancelled)

    def count_tokens(self, text: str) -> int:
        return self._opened().count_tokens(text)

    def close(self) -> None:
        """Leave the model open: it belongs to the server."""

    def _forward(self, question: Callable[[EngineExtras], T]) -> T:
        return question(extras_of(self._opened()))


def embed_kept(
    embedder: Callable[[], Embedder], cache: AnswerStore, role: Role = "query"
) -> Callable[[Sequence[str]], Vectors]:
    """Return a function that embeds texts of a role. Each vector is cached as an answer is."""

    def embed(texts: Sequence[str]) -> Vectors:
        model = embedder()
        keys = [blake2b(f"{role}\0{model.revision}\0{text}".encode(), digest_size=16).digest() for text in texts]
        known = {key: vector for key, text in cache.get(keys).items() if (vector := _kept(text)) is not None}
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        for key, vector in zip(new, model.embed(list(new.values()), role), strict=True):
            known[key] = vector
            cache.put(key, vector_text(vector))
        return np.stack([known[key] for key in keys])

    return embed


def _kept(text: str) -> NDArray[np.float32] | None:
    """Return a cached vector, or None if it is damaged."""
    try:
        return vector_of(text)
    except ValueError:
        return None
