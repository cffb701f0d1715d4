"""An engine that is opened again when it dies: queries wait for it and go on where they were, or fail."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import structlog

from flightllm.config import EngineConfig, RecoveryConfig
from flightllm.errors import CancelledError, EngineUnavailableError
from flightllm.llm import create_engine
from flightllm.model.engine import Completion, Engine, PrefixCache, Request

_FIRST_PAUSE, _MOST_PAUSE = 0.5, 30.0
"""Between tries, doubling from one to the next."""
_POLL_SECONDS = 0.1
_log = structlog.get_logger(__name__)


def supervised(config: RecoveryConfig, lost: EngineConfig | None = None) -> Callable[[EngineConfig], Engine]:
    """Return how to create engines that are opened again when they die; see `SupervisedEngine`.

    `lost` is the one that worked in a process before this one: it is opened beside.
    """

    def create(engine: EngineConfig) -> Engine:
        name = f"{engine.kind} ({engine.model})"
        return SupervisedEngine(name, partial(create_engine, engine), config, beside=engine is lost)

    return create


class SupervisedEngine:
    """Owns the engine that `create` makes, and makes it anew once it is gone.

    A query that meets a dead engine sends again what has no answer yet; what was answered stands. An engine that has
    never answered is more likely misconfigured than dead: its first queries fail at once. With `beside` the engine is
    opened in a thread and taken for one that was lost; otherwise the constructor raises what `create` raises.
    """

    def __init__(
        self, name: str, create: Callable[[], Engine], config: RecoveryConfig, *, beside: bool = False
    ) -> None:
        self._name = name
        self._create = create
        self._waits = config.on_engine_down == "wait"
        self._wait_seconds = config.engine_wait_seconds
        self._changed = threading.Condition()
        """Guards everything below."""
        self._closed = threading.Event()
        self._reason = "it is being opened"
        self._failures = 0
        self._worked = beside
        self._engine: tuple[Engine, int] | None = None if beside else (create(), 0)
        """With the number of times that it came into use again."""
        self._kept: Engine | None = None
        """One that is down and comes back by itself."""
        if beside:
            self._reopen(None, 0)

    @property
    def name(self) -> str:
        """Return the engine kind and model."""
        engine = self._engine
        return self._name if engine is None else engine[0].name

    @property
    def alive(self) -> bool:
        """Tell whether the engine is there, as far as is known; waits for nothing."""
        engine = self._engine
        return engine is not None and bool(getattr(engine[0], "alive", True))

    @property
    def reason(self) -> str:
        """Return why the engine is, or was last, not there."""
        engine = self._engine  # one that died has not been found dead before it is asked
        return str((engine and getattr(engine[0], "reason", None)) or self._reason)

    @property
    def inner(self) -> Engine | None:
        """Return the engine where there is one, also one that comes back by itself; waits for nothing."""
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
        """Count as the engine does, once it is open."""
        return self._present()[0].count_tokens(text)

    @property
    def in_flight(self) -> int | None:
        """Return how many prompts the engine is answering, None where it does not count them; waits for nothing."""
        engine = self._engine
        return 0 if engine is None else getattr(engine[0], "in_flight", None)

    def __getattr__(self, name: str) -> Any:
        """Return what else the engine offers."""
        return getattr(self._present()[0], name)

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Pass on what the engine answers, also across its death; see `Engine.generate`.

        Raises:
            EngineUnavailableError: the engine is gone and queries are to fail then, or it did not come back in time.
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
                if not (self._waits and worked):
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
            self._reason = "it is closed"
            self._changed.notify_all()
        if engine is not None:
            engine[0].close()

    def _present(
        self, cancelled: Callable[[], bool] = lambda: False, deadline: float | None = None
    ) -> tuple[Engine, int]:
        """Return the engine and its number, waiting for it where that is configured."""
        engine = self._engine
        if engine is not None:
            return engine
        limit = deadline or time.monotonic() + self._wait_seconds
        with self._changed:
            while self._engine is None:
                if not (self._waits and self._worked) or self._closed.is_set():
                    raise EngineUnavailableError(f"the engine {self._name} is down: {self._reason}")
                if cancelled():
                    raise CancelledError("the query was cancelled")
                if time.monotonic() > limit:
                    raise EngineUnavailableError(
                        f"the engine {self._name} did not come back within [recovery] engine_wait_seconds = "
                        f"{self._wait_seconds}: {self._reason}"
                    )
                self._changed.wait(_POLL_SECONDS)
            return self._engine

    def _works(self) -> None:
        if self._failures or not self._worked:
            with self._changed:
                self._failures, self._worked = 0, True

    def _lose(self, number: int, error: Exception) -> None:
        """Take an engine out of use, unless another query did so before."""
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
        """Bring an engine into use, after a pause where one failed before."""
        kept = self._kept = lost if getattr(lost, "reconnects", False) else None
        if lost is not None and kept is None:
            with suppress(Exception):  # it is dead already
                lost.close()
        while not self._closed.wait(self._pause()):
            try:
                engine = _answering(kept) if kept is not None else self._create()
            except Exception as error:  # noqa: BLE001 - starting fails in many ways; it is tried again
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
        if kept is not None:  # closed meanwhile
            kept.close()

    def _pause(self) -> float:
        return min(_MOST_PAUSE, _FIRST_PAUSE * 2.0 ** (self._failures - 1)) if self._failures else 0.0


class _Feed:
    """The requests of one call, and those of them that have no answer."""

    def __init__(self, requests: Iterator[Request | None]) -> None:
        self._requests = requests
        self.open: dict[int, Request] = {}
        self.broken = False
        """What makes the requests failed: that is not the engine's death."""

    def again(self) -> Iterator[Request | None]:
        """Yield the requests without an answer, then further ones."""
        yield from list(self.open.values())
        while True:
            try:
                request = next(self._requests)
            except StopIteration:
                return
            except BaseException:
                self.broken = True
                raise
            if request is not None:
                self.open[request.id] = request
            yield request


def _answering(engine: Engine) -> Engine:
    """Return an engine that reconnects by itself, once it does."""
    probe = getattr(engine, "probe", None)
    if callable(probe):
        probe()
    return engine


def _close(stream: Iterator[Completion]) -> None:
    close = getattr(stream, "close", None)
    if callable(close):
        close()
