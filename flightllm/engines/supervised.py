"""An engine that is reopened when it dies: queries wait for it and continue, or they fail."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Self

import structlog

from flightllm.config import EngineConfig, RecoveryConfig
from flightllm.engines import create_engine
from flightllm.engines.extras import EngineExtras, ForwardedExtras, T, extras_of
from flightllm.errors import EngineUnavailableError, check_cancelled
from flightllm.llm.batch_endpoint import BatchEndpoint
from flightllm.llm.engine import Completion, Engine, PatientEngine, PrefixCache, Request

_FIRST_PAUSE, _MOST_PAUSE = 0.5, 30.0
"""The first and the longest pause between attempts, in seconds; the pause doubles after each attempt."""
_POLL_SECONDS = 0.1
_log = structlog.get_logger(__name__)


def supervised(config: RecoveryConfig, lost: EngineConfig | None = None) -> Callable[[EngineConfig], Engine]:
    """Return a function that creates engines that are reopened when they die; see `SupervisedEngine`.

    `lost` is the engine that worked in the process before this one: it is opened in the background.
    """

    def create(engine: EngineConfig) -> Engine:
        name = f"{engine.kind} ({engine.model})"
        return SupervisedEngine(name, partial(create_engine, engine), config, in_background=engine is lost)

    return create


class SupervisedEngine(ForwardedExtras):
    """The owner of an engine that `create` opens; it opens a new engine when the present one dies.

    When an engine dies, a query sends its unanswered requests again; answers so far stay valid. An engine that has
    never answered is more likely misconfigured than dead: its first queries fail at once. With
    `in_background`, a thread opens the engine, which counts as lost before. Otherwise the constructor raises the errors
    of `create`.
    """

    def __init__(
        self, name: str, create: Callable[[], Engine], config: RecoveryConfig, *, in_background: bool = False
    ) -> None:
        self._name = name
        self._create = create
        self._waits = config.on_engine_down == "wait"
        self._wait_seconds = config.engine_wait_seconds
        self._changed = threading.Condition()
        """Guards all fields below."""
        self._closed = threading.Event()
        self._reason = "the engine is being opened"
        self._failures = 0
        self._worked = in_background
        self._engine: tuple[Engine, int] | None = None if in_background else (self._created(), 0)
        """The engine, and how often it was replaced or reconnected."""
        self._kept: Engine | None = None
        """An engine that is down and reconnects by itself."""
        if in_background:
            self._reopen(None, 0)

    @property
    def name(self) -> str:
        """Return the engine kind and model."""
        engine = self._engine
        return self._name if engine is None else engine[0].name

    @property
    def alive(self) -> bool:
        """Return whether the engine is alive, as far as is known; this does not wait."""
        engine = self._engine
        return engine is not None and extras_of(engine[0]).alive

    @property
    def reason(self) -> str:
        """Return why the engine is down, or was down the last time."""
        engine = self._engine  # a dead engine can still be here: its death is noticed only at the next call
        return (engine and extras_of(engine[0]).reason) or self._reason

    @property
    def inner(self) -> Engine | None:
        """Return the engine, also one that is down and reconnects by itself, or None; this does not wait."""
        engine = self._engine
        return self._kept if engine is None else engine[0]

    @property
    def revision(self) -> str:
        """Return the engine's revision, once it is open."""
        return self._present()[0].revision

    @property
    def prefix_cache(self) -> PrefixCache | None:
        """Return the engine's prefix cache, once it is open."""
        return self._present()[0].prefix_cache

    def count_tokens(self, text: str) -> int:
        """Count the tokens of `text` with the engine, once it is open."""
        return self._present()[0].count_tokens(text)

    @property
    def in_flight(self) -> int | None:
        """Return how many prompts the engine is answering, or None if it does not count them; this does not wait."""
        engine = self._engine
        return 0 if engine is None else extras_of(engine[0]).in_flight

    @property
    def callers(self) -> int:
        """Return how many calls of `generate` share the engine; this does not wait."""
        engine = self._engine
        return 0 if engine is None else extras_of(engine[0]).callers

    @property
    def replicas(self) -> int:
        """Return how many replicas the engine has; this does not wait."""
        inner = self.inner
        return 1 if inner is None else extras_of(inner).replicas

    @property
    def batches(self) -> BatchEndpoint | None:
        """Return the batch endpoint, or None; this does not wait."""
        inner = self.inner
        return None if inner is None else extras_of(inner).batches

    @property
    def gives_probabilities(self) -> bool:
        """Return whether answers can come with probabilities, as far as is known; this does not wait."""
        inner = self.inner
        return True if inner is None else extras_of(inner).gives_probabilities

    def present(self) -> Engine:
        """Return the engine, once it is open.

        Raises:
            EngineUnavailableError: the engine is down, and queries do not wait, or it did not return in time.
        """
        return self._present()[0]

    def _forward(self, question: Callable[[EngineExtras], T]) -> T:
        return question(extras_of(self._present()[0]))

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Yield the engine's completions, and continue after its death; see `Engine.generate`.

        Raises:
            EngineUnavailableError: the engine is gone, and queries fail by configuration or it did not return in time.
        """
        feed = _Feed(requests)
        deadline: float | None = None
        while True:
            engine, number = self._present(cancelled, deadline)
            stream = engine.generate(feed.again(), cancelled)
            try:
                for completion in stream:
                    feed.open.pop(completion.id, None)
                    deadline = None
                    self._works()
                    yield completion
            except EngineUnavailableError as error:
                if feed.broken:
                    raise
                worked = self._worked
                self._lose(number, error)
                if not (self._waits and worked) or isinstance(engine, PatientEngine):
                    raise
                deadline = deadline or time.monotonic() + self._wait_seconds
            else:
                return
            finally:
                _close(stream)

    def close(self) -> None:
        """Release the engine. Idempotent."""
        self._closed.set()
        with self._changed:
            engine, self._engine = self._engine, None
            self._reason = "the engine is closed"
            self._changed.notify_all()
        if engine is not None:
            engine[0].close()

    def _present(
        self, cancelled: Callable[[], bool] = lambda: False, deadline: float | None = None
    ) -> tuple[Engine, int]:
        """Return the engine and its number; wait for the engine if this is configured.

        Raises:
            CancelledError: `cancelled()` returned True.
            EngineUnavailableError: the engine is down and queries do not wait, or it did not return in time.
        """
        engine = self._engine
        if engine is not None:
            return engine
        limit = deadline or time.monotonic() + self._wait_seconds
        with self._changed:
            while self._engine is None:
                if not (self._waits and self._worked) or self._closed.is_set():
                    raise EngineUnavailableError(f"the engine {self._name} is down: {self._reason}")
                check_cancelled(cancelled)
                if time.monotonic() > limit:
                    raise EngineUnavailableError(
                        f"the engine {self._name} did not come back within [recovery] engine_wait_seconds = "
                        f"{self._wait_seconds}: {self._reason}"
                    )
                self._changed.wait(_POLL_SECONDS)
            return self._engine

    def _created(self) -> Engine:
        """Return a new engine; an engine that waits for its endpoint itself gets the patience of queries."""
        engine = self._create()
        if self._waits and isinstance(engine, PatientEngine):
            engine.patience = self._wait_seconds
        return engine

    def _works(self) -> None:
        if self._failures or not self._worked:
            with self._changed:
                self._failures, self._worked = 0, True

    def _lose(self, number: int, error: Exception) -> None:
        """Mark an engine as down and reopen it, unless another query has already done so."""
        with self._changed:
            if self._engine is None or self._engine[1] != number:
                return
            (lost, _), self._engine = self._engine, None
            self._failures += 1
            self._reason = str(error)
        _log.warning("engine down", engine=self._name, error=str(error), queries="wait" if self._waits else "fail")
        self._reopen(lost, number + 1)

    def _reopen(self, lost: Engine | None, number: int) -> None:
        threading.Thread(target=self._open, args=(lost, number), name="engine-restart", daemon=True).start()

    def _open(self, lost: Engine | None, number: int) -> None:
        """Open or reconnect an engine and put it into use; pause after failed attempts."""
        kept = self._kept = lost if lost is not None and extras_of(lost).reconnects else None
        if lost is not None and kept is None:
            with suppress(Exception):  # the engine is already dead
                lost.close()
        while not self._closed.wait(self._pause()):
            try:
                engine = _answering(kept) if kept is not None else self._created()
            except Exception as error:  # noqa: BLE001 - the start can fail in many ways; the loop tries again
                with self._changed:
                    self._failures += 1
                    tries = self._failures
                    if not self._closed.is_set():
                        self._reason = str(error)
                _log.warning("engine did not start", engine=self._name, error=str(error), tries=tries)
                continue
            with self._changed:
                if not self._closed.is_set():
                    self._engine = engine, number
                    self._changed.notify_all()
                    _log.info("engine open", engine=engine.name)
                    return
            engine.close()
            return
        if kept is not None:  # `close` was called meanwhile
            kept.close()

    def _pause(self) -> float:
        return min(_MOST_PAUSE, _FIRST_PAUSE * 2.0 ** (self._failures - 1)) if self._failures else 0.0


class _Feed:
    """The requests of one call, with those that have no answer in `open`."""

    def __init__(self, requests: Iterator[Request | None]) -> None:
        self._requests = requests
        self._again: deque[Request] = deque()
        self.lane = getattr(requests, "lane", None)
        """The queue from which a replica's engine gets its requests; see `flightllm.engines.shares`."""
        self.open: dict[int, Request] = {}
        self.broken = False
        """Whether the iterator of requests raised an error; this error is not the engine's death."""

    def again(self) -> Self:
        """Return this iterator; it yields the requests without an answer, then new requests."""
        self._again = deque(self.open.values())
        return self

    def __iter__(self) -> Self:
        """Return this iterator."""
        return self

    def __next__(self) -> Request | None:
        """Return the next request, or None if there is no request at the moment."""
        if self._again:
            return self._again.popleft()
        try:
            request = next(self._requests)
        except StopIteration:
            raise
        except BaseException:
            self.broken = True
            raise
        if request is not None:
            self.open[request.id] = request
        return request


def _answering(engine: Engine) -> Engine:
    """Return an engine that reconnects by itself, after its probe succeeded."""
    extras_of(engine).probe()
    return engine


def _close(stream: Iterator[Completion]) -> None:
    close = getattr(stream, "close", None)
    if callable(close):
        close()
