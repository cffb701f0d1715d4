"""Use an embedder at an endpoint as an engine: several requests run at once, and a query waits for the endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from flightllm.engines.embed.base import Embedder, RemoteEmbedder
from flightllm.engines.embed.engine import EmbeddingEngine, by_role, text_of
from flightllm.engines.window import Window
from flightllm.llm.engine import Completion, PatientEngine, Request


class RemoteEmbeddingEngine(EmbeddingEngine, PatientEngine):
    """An embedding engine over an endpoint."""

    reconnects = True
    """The engine stays usable when the endpoint dies and returns."""
    estimates_tokens = True

    def __init__(self, embedder: RemoteEmbedder, window: int) -> None:
        super().__init__(embedder, window)
        self._remote = embedder

    @property
    def patience(self) -> float:
        """Return for how many seconds nothing must succeed before the endpoint counts as down."""
        return self._remote.patience

    @patience.setter
    def patience(self, seconds: float) -> None:
        self._remote.patience = seconds

    @property
    def down_seconds(self) -> float:
        """Return for how long nothing has succeeded; 0 if the last request did."""
        return self._remote.down_seconds

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Embed the texts in requests as large as the endpoint takes; see `Engine.generate`."""
        remote = self._remote
        window = Window(remote.loop, self._outcomes, self._window, lambda: remote.texts_at_once, remote.shares)
        return window.stream(requests, cancelled)

    async def _outcomes(self, batch: Sequence[Request]) -> list[Completion]:
        for request in batch:
            request.dispatch.waits = True
        answers: list[Completion] = []
        for role, some in by_role(batch):
            dispatches = [request.dispatch for request in some]
            found = await self._remote.outcomes([text_of(request) for request in some], role, dispatches)
            answers += self.completions(some, found)
        return answers


def embedding_engine(embedder: Embedder, window: int) -> EmbeddingEngine:
    """Return the engine over an embedder, which embeds up to `window` texts of a query at once."""
    if isinstance(embedder, RemoteEmbedder):
        return RemoteEmbeddingEngine(embedder, window)
    return EmbeddingEngine(embedder, window)
