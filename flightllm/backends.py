"""What answers calls that are not the language model's: the embedding model and the vector indexes."""

from threading import Lock

from flightllm.ai import Backend
from flightllm.config import EmbeddingConfig
from flightllm.errors import InternalError
from flightllm.llm.base import Engine
from flightllm.llm.embed import Embedder, create_embedder
from flightllm.llm.embed.engine import EmbeddingEngine
from flightllm.operators.cache import AnswerCache
from flightllm.vector.store import VectorIndexes


class Backends:
    """Made when they are first needed: a model takes seconds to load. Safe to use from several threads."""

    def __init__(self, config: EmbeddingConfig, indexes: VectorIndexes, cache: AnswerCache) -> None:
        self._config = config
        self._indexes = indexes
        self._cache = cache
        self._lock = Lock()
        self._embedder: Embedder | None = None

    def get(self, backend: Backend) -> tuple[Engine, int]:
        """Return what answers calls of a backend, and how many at once.

        Raises:
            ConfigError: the embedding model cannot be loaded.
            MissingExtraError: the extra `vector` is not installed.
        """
        match backend:
            case "embedding":
                window = self._config.max_in_flight
                return EmbeddingEngine(self.embedder(), window), window
            case "search":
                from flightllm.searching import embed_kept, matching
                from flightllm.vector.engine import WINDOW, SearchEngine

                return SearchEngine(self._indexes, embed_kept(self.embedder, self._cache), matching), WINDOW
            case _:
                raise InternalError(f"the backend {backend} is the engine's own")

    def embedder(self) -> Embedder:
        """Return the embedding model, loaded once."""
        with self._lock:
            if self._embedder is None:
                self._embedder = create_embedder(self._config)
            return self._embedder

    def close(self) -> None:
        """Release the embedding model. Idempotent."""
        with self._lock:
            if self._embedder is not None:
                self._embedder.close()
                self._embedder = None
