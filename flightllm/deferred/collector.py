"""One pass of a deferred statement: its engines return known answers, and list the other prompts."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final

from flightllm.deferred.store import BatchStore, Listed
from flightllm.engines.registry import OpenModel
from flightllm.errors import UnansweredError, UnsupportedError, check_cancelled
from flightllm.llm.batch_endpoint import BatchEndpoint, batch_endpoint
from flightllm.llm.cost import Work
from flightllm.llm.engine import Completion, Engine, Request

MOST_TRIES: Final = 3
"""How often a prompt is sent that gets no usable answer, because of the form or because of the provider."""
_TOGETHER: Final = 1_000
"""Prompts that one transaction keeps."""


class Collector:
    """The prompts of one pass. Thread-safe.

    With `keeping`, the pass only puts answers into the cache: it lists nothing, and ends without effect.
    """

    def __init__(self, store: BatchStore, batch_id: str, *, keeping: bool = False) -> None:
        self._store = store
        self._batch = batch_id
        self._keeping = keeping
        self._lock = threading.Lock()
        self._waiting: list[Listed] = []
        self._listed: set[bytes] = set()
        self._shared: list[tuple[bytes, str]] = []
        self._awaited: set[bytes] = set()
        self._unanswered = 0

    @property
    def listed(self) -> int:
        """Return how many prompts the pass has listed."""
        return len(self._listed)

    @property
    def awaited(self) -> int:
        """Return how many prompts wait for the answers of other statements."""
        return len(self._awaited)

    def engine(self, model: OpenModel, scope: str = "") -> Engine:
        """Return the engine that stands for a model; see `Collecting.engine`.

        Raises:
            UnsupportedError: the model has no batch endpoint.
        """
        endpoint = batch_endpoint(model.engine)
        if endpoint is None:
            raise no_endpoint(model)
        return _CollectingEngine(model.engine, model.name, scope, endpoint, self)

    def spent(self) -> Mapping[str | None, Work]:
        """Return the work whose answers earlier passes have read; see `Collecting.spent`."""
        return self._store.works(self._batch, before_last_round=True)

    def finish(self) -> None:
        """Check that no prompt is without an answer; see `Collecting.finish`."""
        self.flush()
        if self._unanswered or self._keeping:
            raise UnansweredError("the answers come to a later pass of the deferred statement")

    def flush(self) -> None:
        """Keep all listed prompts on disk."""
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._store.add(self._batch, self._waiting)
            self._waiting = []
        if self._shared:
            self._store.wait_for(self._batch, self._shared)
            self._shared = []

    def answer(
        self, request: Request, digest: bytes, model: str | None, scope: str, endpoint: BatchEndpoint
    ) -> Completion | None:
        """Return the known answer to a request; otherwise list its prompt and return None.

        A prompt that another open statement of the scope has is not listed: it waits for that statement's answer.
        """
        known = self._store.known(self._batch, digest)
        tries = 0 if known is None else known.tries
        if known is not None and known.result is not None:
            last = tries >= MOST_TRIES or self._keeping
            again = known.result.passes and not last
            found = None if again else endpoint.read(request, known.note, known.result, last=last)
            if found is not None and not (self._keeping and found.error is not None):
                return found
        if self._keeping or digest in self._listed or (known is not None and known.state == "sent"):
            self._unanswered += 1
            return None
        owner = self._store.owner(self._batch, digest, scope, answered=known is None)
        if owner is None and known is None and (found := endpoint.settle(request)) is not None:
            return found
        with self._lock:
            self._unanswered += 1
            if owner is not None:
                if digest not in self._awaited:
                    self._awaited.add(digest)
                    self._shared.append((digest, owner))
            elif digest not in self._listed:
                draft = endpoint.draft(request)
                body = json.dumps(draft.body, ensure_ascii=True)
                again_listed = known is not None and known.state == "listed"
                self._listed.add(digest)
                tries = max(1, tries + (not again_listed))
                self._waiting.append(Listed(digest, model, tries, body, draft.note, scope))
            if max(len(self._waiting), len(self._shared)) >= _TOGETHER:
                self._flush()
        return None


class _CollectingEngine:
    """An engine that asks nothing: it stands for a model in one pass."""

    def __init__(
        self, engine: Engine, model: str | None, scope: str, endpoint: BatchEndpoint, collector: Collector
    ) -> None:
        self._engine = engine
        self._model = model
        self._scope = scope
        self._endpoint = endpoint
        self._collector = collector

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Yield the known answers; end at the first pause, because nothing comes before the next pass."""
        for request in requests:
            check_cancelled(cancelled)
            if request is None:
                return
            digest = _digest(request, self._model, self._engine.revision)
            completion = self._collector.answer(request, digest, self._model, self._scope, self._endpoint)
            if completion is None:
                request.dispatch.waits = True  # it costs nothing yet
            else:
                yield completion

    def close(self) -> None:
        """Do nothing: the engine belongs to the server."""


def no_endpoint(model: OpenModel) -> UnsupportedError:
    """Return the error for a model without a batch endpoint."""
    name = "the server's own model" if model.name is None else f"the model {model.name!r}"
    return UnsupportedError(
        f"{name} ({model.engine.name}) has no batch endpoint: SET flightllm.delivery = 'immediate', use a model of a"
        " provider with one, or set the engine's option batch = 'on' if the endpoint takes OpenAI's batches"
    )


def _digest(request: Request, model: str | None, revision: str) -> bytes:
    """Return a key of all that decides the answer to a request."""
    parts = (model, revision, request.prompt, repr(request.parameters), request.limit, request.tenant)
    return blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=16).digest()
