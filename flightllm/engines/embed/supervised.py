"""An embedder for searches that is reopened when it dies; a search does not wait for the embedder."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from flightllm.config import EmbeddingConfig, RecoveryConfig
from flightllm.engines.embed import create_embedder
from flightllm.engines.embed.base import Role, Vectors
from flightllm.engines.embed.engine import EmbeddingEngine, vector_of
from flightllm.engines.embed.remote import embedding_engine
from flightllm.engines.supervised import SupervisedEngine
from flightllm.errors import CancelledError, EngineError, EngineUnavailableError
from flightllm.llm.engine import Completion, Parameters, Request

_MOST_SECONDS: Final = 2.0
"""The longest wait of a search for an endpoint that is down."""


class SupervisedEmbedder:
    """An embedder over a supervised engine.

    While the engine is down, `ai_embed` in a query waits for it as configured. A search cannot be cancelled while it
    embeds, so a search fails at once.
    """

    def __init__(self, config: EmbeddingConfig, recovery: RecoveryConfig) -> None:
        self.name = f"{config.kind} ({config.model})"

        def create() -> EmbeddingEngine:
            return embedding_engine(create_embedder(config), config.max_in_flight)

        self.engine = SupervisedEngine(self.name, create, recovery)

    @property
    def revision(self) -> str:
        """Return the embedder's revision.

        Raises:
            EngineUnavailableError: the embedder is gone.
        """
        with self._there():
            return self.engine.revision

    @property
    def dimensions(self) -> int:
        """Return the length of the vectors.

        Raises:
            EngineUnavailableError: the embedder is gone.
        """
        with self._there():
            return cast("EmbeddingEngine", self.engine.present()).dimensions

    def embed(self, texts: Sequence[str], role: Role = "document") -> Vectors:
        """Return a vector per text.

        Raises:
            EngineUnavailableError: the embedder is gone.
            EngineError: the embedder rejects a text, or its answer cannot be read.
        """
        ask = partial(Request, parameters=Parameters(), function="ai_embed", instruction=role)
        requests = [ask(id=place, prompt=text, fields=(("text", text),)) for place, text in enumerate(texts)]
        with self._there():
            answers = self.engine.generate(iter(requests), partial(self._is_down, time.monotonic()))
            found = {answer.id: _vector(answer) for answer in answers}
        return np.stack([found[place] for place in range(len(texts))]) if found else np.empty((0, 0), np.float32)

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text."""
        return self.engine.count_tokens(text)

    def close(self) -> None:
        """Release the embedder. Idempotent."""
        self.engine.close()

    def _is_down(self, began: float) -> bool:
        """Return whether the embedder is gone, or its endpoint has not answered for a while since `began`."""
        if not self.engine.alive:
            return True
        return min(time.monotonic() - began, self.engine.down_seconds) > _MOST_SECONDS

    @contextmanager
    def _there(self) -> Iterator[None]:
        down = EngineUnavailableError(f"the embedding engine {self.name} is down: run the query again in a moment")
        if not self.engine.alive:
            raise down
        try:
            yield
        except CancelledError:  # the engine died meanwhile
            raise down from None


def _vector(answer: Completion) -> NDArray[np.float32]:
    if answer.text is None:
        raise EngineError(answer.error or "the embedding engine returned no vector")
    return vector_of(answer.text)
