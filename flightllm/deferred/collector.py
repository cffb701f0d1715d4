"""One pass of a deferred statement: its engines return known answers, and list the other prompts."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Protocol

from flightllm.deferred.store import BatchStore, Held, Known, Listed
from flightllm.engines.extras import EngineExtras, ForwardedExtras, T, extras_of
from flightllm.engines.registry import OpenModel
from flightllm.errors import UnansweredError, UnsupportedError, check_cancelled
from flightllm.llm.batch_endpoint import BatchEndpoint, batch_endpoint
from flightllm.llm.cost import Work
from flightllm.llm.engine import Completion, Engine, PrefixCache, Request
from flightllm.operators.budget import RequestBudget, Reservation

MOST_TRIES: Final = 3
"""How often a prompt is sent that gets no usable answer, because of the form or because of the provider."""
_TOGETHER: Final = 1_000
"""Prompts that one transaction keeps."""


class Spending(Protocol):
    """The spending of a user in a day; see `Ledger`."""

    def keep(self, name: str, calls: int, tokens: int, cost: float) -> None:
        """Reserve what a statement can still take, in place of what it could take before."""

    def book(self, calls: int, tokens: int, cost: float) -> None:
        """Count real spending."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The model of a pass: its name and endpoint, the scope of answers, and the budget."""

    model: str | None
    endpoint: BatchEndpoint
    scope: str
    budget: RequestBudget | None


class Collector:
    """The prompts of one pass. Thread-safe.

    With `keeping`, the pass only puts answers into the cache: it lists nothing, and ends without effect.
    """

    def __init__(
        self, store: BatchStore, batch_id: str, spending: Spending | None = None, *, keeping: bool = False
    ) -> None:
        self._store = store
        self._spending = spending
        self._batch = batch_id
        self._keeping = keeping
        self._lock = threading.Lock()
        self._waiting: list[Listed] = []
        self._listed: set[bytes] = set()
        self._shared: list[tuple[bytes, str]] = []
        self._awaited: set[bytes] = set()
        self._unanswered = 0
        self._reserved: list[tuple[RequestBudget, Reservation]] = []
        self.refusal: str | None = None
        """Why a limit left prompts unsent, or None."""

    @property
    def keeping(self) -> bool:
        """Return whether the pass only puts answers into the cache."""
        return self._keeping

    @property
    def listed(self) -> int:
        """Return how many prompts the pass has listed."""
        return len(self._listed)

    @property
    def awaited(self) -> int:
        """Return how many prompts wait for the answers of other statements."""
        return len(self._awaited)

    def engine(self, model: OpenModel, scope: str = "", budget: RequestBudget | None = None) -> Engine:
        """Return the engine that stands for a model; see `Collecting.engine`.

        Raises:
            UnsupportedError: the model has no batch endpoint.
        """
        endpoint = batch_endpoint(model.engine)
        if endpoint is None:
            raise no_endpoint(model)
        return _CollectingEngine(model.engine, Asked(model.name, endpoint, scope, budget), self)

    def spent(self) -> Mapping[str | None, Work]:
        """Return the work of earlier rounds; see `Collecting.spent`."""
        return self._store.works(self._batch)

    def leave(self) -> None:
        """Keep what the listed prompts can take beyond the pass; see `Collecting.leave`."""
        with self._lock:
            reserved, self._reserved = self._reserved, []
        if self._spending is not None and reserved:  # before the release: nobody else can take it in between
            tokens, cost = (sum(getattr(one, name) for _, one in reserved) for name in ("tokens", "cost"))
            self._spending.keep(self._batch, len(reserved), tokens, cost)
        for budget, reservation in reserved:
            budget.release(reservation, sent=False)

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

    def answer(self, request: Request, digest: bytes, asked: Asked) -> Completion | None:
        """Return the known answer to a request; otherwise list its prompt and return None.

        A prompt that another open statement of the scope has is not listed: it waits for that statement's answer. A
        prompt beyond a limit is not listed either: it gets the limit's error, or waits for the next pass.

        Raises:
            BudgetExceededError: a limit is reached, and the session wants the query to fail then.
        """
        known = self._store.known(self._batch, digest)
        tries = 0 if known is None else known.tries
        if known is not None and known.result is not None:
            last = tries >= MOST_TRIES or self._keeping
            again = known.result.passes and not last
            found = None if again else asked.endpoint.read(request, known.note, known.result, last=last)
            if found is not None and not (self._keeping and found.error is not None):
                return found
        if self._keeping or digest in self._listed or (known is not None and known.state == "sent"):
            self._unanswered += 1
            return None
        owner = self._store.owner(self._batch, digest, asked.scope, answered=known is None)
        if owner is not None:
            self._wait_for(digest, owner)
            return None
        return self._list(request, digest, known, asked)

    def _wait_for(self, digest: bytes, owner: str) -> None:
        with self._lock:
            self._unanswered += 1
            if digest not in self._awaited:
                self._awaited.add(digest)
                self._shared.append((digest, owner))
                self._flush_many()

    def _list(self, request: Request, digest: bytes, known: Known | None, asked: Asked) -> Completion | None:
        """List a prompt within the budget; return an answer if there is one already, or why the budget refuses it."""
        budget, reservation = asked.budget, None
        if budget is not None:
            reservation = budget.take(request)
            if reservation is None:
                if budget.refusal is None:
                    self._unanswered += 1  # there can be room after this round
                    return None
                self.refusal = budget.refusal
                return Completion(request.id, None, error=budget.refusal)
        if known is None and (found := _settled(request, asked, reservation)) is not None:
            figures = found.prompt_tokens, found.cached_tokens, found.completion_tokens, found.written_tokens
            self._store.asked_at_once(self._batch, digest.hex(), asked.model, Work(1, *figures))
            if budget is not None and reservation is not None:
                budget.settle(reservation, found)
            return found
        with self._lock:
            self._unanswered += 1
            if digest in self._listed:  # another operator was quicker
                if budget is not None and reservation is not None:
                    budget.release(reservation, sent=False)
                return None
            draft = asked.endpoint.draft(request)
            body = json.dumps(draft.body, ensure_ascii=True)
            tries = 0 if known is None else known.tries
            again_listed = known is not None and known.state == "listed"
            self._listed.add(digest)
            held = Held()
            if budget is not None and reservation is not None:
                self._reserved.append((budget, reservation))
                held = Held(1, reservation.tokens, reservation.cost)
            tries = max(1, tries + (not again_listed))
            listed = Listed(digest, asked.model, tries, body, draft.note, asked.scope, held.tokens, held.cost)
            self._waiting.append(listed)
            self._flush_many()
        return None

    def _flush_many(self) -> None:
        if max(len(self._waiting), len(self._shared)) >= _TOGETHER:
            self._flush()


class _CollectingEngine(ForwardedExtras):
    """An engine that asks nothing: it stands for a model in one pass."""

    def __init__(self, engine: Engine, asked: Asked, collector: Collector) -> None:
        self._engine = engine
        self._asked = asked
        self._collector = collector

    @property
    def name(self) -> str:
        return self._engine.name

    @property
    def revision(self) -> str:
        return self._engine.revision

    @property
    def prefix_cache(self) -> PrefixCache | None:
        return self._engine.prefix_cache

    def count_tokens(self, text: str) -> int:
        return self._engine.count_tokens(text)

    def _forward(self, question: Callable[[EngineExtras], T]) -> T:
        return question(extras_of(self._engine))

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Yield the known answers; end at the first pause, because nothing comes before the next pass."""
        for request in requests:
            check_cancelled(cancelled)
            if request is None:
                return
            digest = _digest(request, self._asked.model, self._engine.revision)
            completion = self._collector.answer(request, digest, self._asked)
            if completion is None:
                request.dispatch.waits = True  # it costs nothing yet
            else:
                yield completion

    def close(self) -> None:
        """Do nothing: the engine belongs to the server."""


def _settled(request: Request, asked: Asked, reservation: Reservation | None) -> Completion | None:
    """Return the answer to a prompt that must be asked at once, within the budget; see `BatchEndpoint.settle`."""
    budget, dispatch = asked.budget, request.dispatch
    if budget is not None and reservation is not None:

        def admit(answer: int) -> str | None:
            again = dispatch.sent
            return budget.admit(reservation, answer, again=again, billed=again and dispatch.billed)

        dispatch.admit, dispatch.retract = admit, lambda: budget.retract(reservation)
    return asked.endpoint.settle(request)


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
