"""What answers calls that are not the language model's: the embedding model and the vector indexes."""

from functools import partial
from threading import Lock

from flightllm.config import EmbeddingConfig, LimitsConfig, RecoveryConfig
from flightllm.llm.base import Engine
from flightllm.llm.embed.supervised import SupervisedEmbedder
from flightllm.operators.cache import AnswerCache
from flightllm.operators.searches import Searcher
from flightllm.vector.store import VectorIndexes


class Backends:
    """Made when they are first needed: a model takes seconds to load. Safe to use from several threads."""

    def __init__(
        self,
        config: EmbeddingConfig,
        recovery: RecoveryConfig,
        limits: LimitsConfig,
        indexes: VectorIndexes,
        cache: AnswerCache,
    ) -> None:
        self._config = config
        self._recovery = recovery
        self._limits = limits
        self._indexes = indexes
        self._cache = cache
        self._lock = Lock()
        self._embedder: SupervisedEmbedder | None = None

    def embeddings(self) -> tuple[Engine, int]:
        """Return what answers calls of the embedding model, and how many at once.

        Raises:
            ConfigError: the embedding model cannot be loaded.
            MissingExtraError: the extra `vector` is not installed.
        """
        return self.embedder().engine, self._config.max_in_flight

    def searcher(self) -> Searcher:
        """Return what answers searches.

        Raises:
            MissingExtraError: the extra `vector` is not installed.
        """
        from flightllm.searching import embed_kept, matching
        from flightllm.vector.engine import IndexSearcher

        return IndexSearcher(
            self._indexes, embed_kept(self.embedder, self._cache), partial(matching, limits=self._limits)
        )

    def embedder(self) -> SupervisedEmbedder:
        """Return the embedding model, loaded once, and again where it dies."""
        with self._lock:
            if self._embedder is None:
                self._embedder = SupervisedEmbedder(self._config, self._recovery)
            return self._embedder

    def close(self) -> None:
        """Release the embedding model. Idempotent."""
        with self._lock:
            if self._embedder is not None:
                self._embedder.close()
                self._embedder = None
