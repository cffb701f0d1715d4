"""Use an embedder as an engine: a request's one field is the text, the answer is the vector, encoded as text."""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from flightllm.engines.embed.base import Embedder, Outcome, Role, TextsError
from flightllm.engines.extras import EngineExtras
from flightllm.errors import AnswerError, check_cancelled
from flightllm.llm.engine import Completion, More, PrefixCache, Request, pull

_PAUSE_SECONDS = 0.001
_BATCH = 128
"""The most texts between two checks for a cancelled query."""

BatchAnswer = Callable[[list[Request]], list[Completion]]
T = TypeVar("T")


class EmbeddingEngine(EngineExtras):
    """An engine that answers each request with the vector of its text; the request's instruction is the text's role."""

    estimates_tokens = False
    """Whether the tokens of texts are estimates."""

    def __init__(self, embedder: Embedder, window: int) -> None:
        self._embedder = embedder
        self._window = window
        self.name = embedder.name
        self.revision = embedder.revision
        self.prefix_cache: PrefixCache | None = None

    @property
    def dimensions(self) -> int:
        """Return the length of the vectors."""
        return self._embedder.dimensions

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Embed the texts in batches; see `Engine.generate`."""
        return in_batches(requests, cancelled, min(_BATCH, self._window), self._answer)

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text."""
        return self._embedder.count_tokens(text)

    def close(self) -> None:
        """Release the embedder."""
        self._embedder.close()

    def _answer(self, batch: list[Request]) -> list[Completion]:
        return [one for role, some in by_role(batch) for one in self._embedded(some, role)]

    def _embedded(self, batch: list[Request], role: Role) -> list[Completion]:
        """Embed texts together; if the embedder rejects them, embed each half by itself."""
        try:
            found: Sequence[Outcome] = list(self._embedder.embed([text_of(request) for request in batch], role))
        except TextsError as error:
            found = error.outcomes
        except AnswerError as error:
            if error.shared or len(batch) == 1:
                return [Completion(request.id, None, str(error)) for request in batch]
            middle = len(batch) // 2
            return [*self._embedded(batch[:middle], role), *self._embedded(batch[middle:], role)]
        return self.completions(batch, found)

    def completions(self, batch: Sequence[Request], found: Sequence[Outcome]) -> list[Completion]:
        """Return the completion of each request from the vector or the error of its text."""
        return [
            Completion(request.id, None, str(one)) if isinstance(one, AnswerError) else self._completion(request, one)
            for request, one in zip(batch, found, strict=True)
        ]

    def _completion(self, request: Request, vector: NDArray[np.float32]) -> Completion:
        tokens = self.count_tokens(text_of(request))
        if not np.isfinite(vector).all():
            return Completion(
                request.id,
                None,
                f"{self.name} returned a vector with numbers that are not finite",
                tokens,
                estimated=self.estimates_tokens,
            )
        return Completion(request.id, vector_text(vector), None, tokens, estimated=self.estimates_tokens)


def by_role(batch: Sequence[Request]) -> Iterator[tuple[Role, list[Request]]]:
    """Yield the requests of each role."""
    for role in sorted({request.instruction for request in batch}):
        yield cast("Role", role), [request for request in batch if request.instruction == role]


def in_batches(
    requests: Iterator[Request | None], cancelled: Callable[[], bool], size: int, answer: BatchAnswer
) -> Iterator[Completion]:
    """Pull requests, up to `size` at a time, and yield the completions that `answer` returns.

    Raises:
        CancelledError: `cancelled()` returned True.
    """
    more = More.READY
    while more is not More.ENDED:
        check_cancelled(cancelled)
        pulled, more = pull(requests, size, cancelled)
        if pulled:
            yield from answer(pulled)
        elif more is More.PAUSED:
            time.sleep(_PAUSE_SECONDS)


def text_of(request: Request) -> str:
    """Return the value of a request's one field."""
    return request.fields[0][1]


def vector_text(vector: NDArray[np.float32]) -> str:
    """Return a vector as text: its bytes, little-endian, in base64."""
    return b64encode(vector.astype("<f4").tobytes()).decode("ascii")


def vector_of(text: str) -> NDArray[np.float32]:
    """Return the vector that `vector_text` encoded.

    Raises:
        ValueError: the text is not an encoded vector.
    """
    try:
        return np.frombuffer(b64decode(text, validate=True), "<f4")
    except (TypeError, ValueError) as error:
        raise ValueError(f"expected the text of an encoded vector; got {text!r:.80}") from error
