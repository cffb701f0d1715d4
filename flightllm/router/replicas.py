"""The replicas of one model: open them, follow their state, add and remove them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Final

import numpy as np
import structlog

from flightllm.engines.extras import EngineExtras, ForwardedExtras, T, extras_of
from flightllm.errors import ConfigError, EngineUnavailableError
from flightllm.llm.cost import Costs
from flightllm.llm.engine import Engine, PrefixCache, Request, cache_salt
from flightllm.router.base import Router, create_router
from flightllm.router.fleet import Fleet
from flightllm.router.mirror import KvMirror
from flightllm.router.pace import Arrivals, Pace
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.replica import Replica, ReplicaStatus
from flightllm.router.replica_queue import ReplicaQueue
from flightllm.router.tokens import packed_tokens

if TYPE_CHECKING:
    from flightllm.router.kv_events import KvSubscription

_NONE: Final = PrefixCache(16, 0)
_UNKNOWN_BLOCKS: Final = 1 << 16
_HORIZON: Final = 4_096
_HORIZON_WINDOWS: Final = 4
"""A policy plans with `_HORIZON` prompts, or with this many windows of all replicas if that is more."""
_LEAVE_POLL_SECONDS: Final = 0.1
_NEWS: Final = 0.05
"""The relative change of a rate that updates the predictions of all open prompts. Each update takes microseconds."""
_log = structlog.get_logger(__name__)


class Replicas(ForwardedExtras):
    """Replicas of one model that come and go. Thread-safe.

    A replica that dies is reopened in the background.
    """

    def __init__(
        self, name: str, replicas: Sequence[tuple[str, Callable[[], Engine]]], policy: str, window: int
    ) -> None:
        """Open the replicas: for each, its name and a function that creates its engine.

        Each engine keeps `window` prompts in flight.

        Raises:
            ConfigError: wrong options, or replicas that would answer differently.
            MissingExtraError: a replica's packages are not installed.
            EngineUnavailableError: no replica started.
        """
        self._name = name
        self.policy = policy
        self._window = window
        self.lock = threading.RLock()
        """Guards the fleet, the router, the replicas and their queues."""
        self.costs = Costs()
        self.keys = count()
        self.arrivals = Arrivals()
        self._replicas: dict[int, Replica] = {}
        self._subscriptions: dict[int, KvSubscription] = {}
        self._fleet: Fleet | None = None
        self._router: Router | None = None
        self._revision: str | None = None
        self._closed = False
        try:
            self._open_all(replicas)
        except BaseException:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        """Return whether a replica is up."""
        return any(replica.engine.alive for replica in self._replicas.values())

    @property
    def in_flight(self) -> int:
        """Return how many prompts the replicas are answering."""
        return sum(replica.in_flight for replica in self._replicas.values())

    @property
    def callers(self) -> int:
        """Return how many calls share the replica that has the most of them."""
        replicas = list(self._replicas.values())
        return max((replica.engine.callers for replica in replicas if replica.up), default=0)

    @property
    def replicas(self) -> int:
        """Return how many replicas there are, up or not."""
        return len(self._replicas)

    @property
    def horizon(self) -> int:
        """Return the most prompts without an answer that one query can have, sent or not."""
        return max(_HORIZON, _HORIZON_WINDOWS * self._window * self.replicas)

    @property
    def fleet(self) -> Fleet:
        """Return the state of the replicas; the caller must hold `lock`."""
        if self._fleet is None:
            raise EngineUnavailableError(f"no replica of {self._name} is up")
        return self._fleet

    @property
    def router(self) -> Router:
        """Return the policy; the caller must hold `lock`."""
        if self._router is None:
            self._router = create_router(self.policy, self.fleet)
        return self._router

    def probe(self) -> None:
        """Check that a replica is up.

        Raises:
            EngineUnavailableError: no replica is up.
        """
        self._known()

    def prompts(self, requests: Sequence[Request]) -> list[RoutedPrompt]:
        """Return requests as prompts to route, with new keys."""
        salts = self._ask(lambda engine: extras_of(engine).separates_tenants)
        packed = self._ask(lambda engine: packed_tokens(engine, requests))
        return [
            RoutedPrompt(next(self.keys), ids, one.parameters.max_tokens, _salt(one) if salts else b"", one.priority)
            for one, ids in zip(requests, packed, strict=True)
        ]

    def replica(self, number: int) -> Replica:
        """Return a replica by its number."""
        return self._replicas[number]

    def refresh(self) -> None:
        """Update which replicas are up, and the rates of work; the caller holds the lock."""
        for replica in list(self._replicas.values()):
            inner = replica.engine.inner if replica.engine.alive else None
            if replica.up and inner is not replica.joined:
                self.lost(replica.number, replica.engine.reason)
            if inner is not None and not replica.up and not replica.leaving:
                with suppress(EngineUnavailableError):  # the replica has just died
                    self._join(replica, inner)
        rates = self.costs.rates()
        if self._fleet is not None and not np.allclose(rates, self._fleet.rates, rtol=_NEWS, atol=0.0):
            self._fleet.learn(rates)

    def lost(self, number: int, reason: str) -> None:
        """Mark a replica as down; `reason` says why."""
        with self.lock:
            replica = self._replicas.get(number)
            if replica is None or not replica.up or self._fleet is None:
                return
            replica.up, replica.error = False, reason
            self._forget(number)
            self._fleet.lose(number)
        _log.warning("replica down", replica=replica.name, error=reason)

    def add(self, name: str, create: Callable[[], Engine]) -> int:
        """Open one more replica in the background and return its number."""
        with self.lock:
            number = self.fleet.add(None)
            self.fleet.lose(number)  # until the engine is open
            self._replicas[number] = Replica(number, name, create, self._queue(), in_background=True)
            return number

    def remove(self, number: int) -> None:
        """Give a replica no more prompts, and close it once it has answered its present prompts. Idempotent.

        Raises:
            ValueError: the replica is the last one.
        """
        with self.lock:
            replica = self._replicas.get(number)
            if replica is None or replica.leaving:
                return
            if sum(not other.leaving for other in self._replicas.values()) == 1:
                raise ValueError("the last replica cannot be removed")
            self.fleet.retire(number)
            replica.leaving = True
        threading.Thread(target=self._leave, args=(replica,), name="replica-leaving", daemon=True).start()

    def status(self) -> list[ReplicaStatus]:
        """Return the current status of each replica, in the order of their numbers."""
        with self.lock:
            self.refresh()
            return [self._status(self._replicas[number]) for number in sorted(self._replicas)]

    def close(self) -> None:
        """Release all replicas. Idempotent."""
        self._closed = True
        with self.lock:
            replicas = list(self._replicas.values())
            subscriptions = list(self._subscriptions.values())
            self._subscriptions.clear()
        for subscription in subscriptions:
            subscription.close()
        for replica in replicas:
            with suppress(EngineUnavailableError):  # the engine is already gone
                replica.engine.close()

    def _open_all(self, replicas: Sequence[tuple[str, Callable[[], Engine]]]) -> None:
        """Open replicas one by one, and retry failed ones in the background; raise if all fail.

        Raises:
            ConfigError: a replica has another revision than the first one.
            EngineUnavailableError: no replica started.
        """
        failure: EngineUnavailableError | None = None
        for number, (name, create) in enumerate(replicas):
            try:
                replica = Replica(number, name, create, self._queue())
            except EngineUnavailableError as error:
                failure = failure or error
                _log.warning("replica did not start", replica=name, error=str(error))
                replica = Replica(number, name, create, self._queue(), in_background=True)
            self._replicas[number] = replica
        if failure is not None and not any(replica.engine.alive for replica in self._replicas.values()):
            raise failure
        with self.lock:
            self.refresh()
            refused = next((r.error for r in self._replicas.values() if r.engine.alive and not r.up), None)
        if refused is not None:
            raise ConfigError(f"[engine] replicas: {refused}")

    def _queue(self) -> ReplicaQueue:
        return ReplicaQueue(self._held_share, self.lock, Pace(self.arrivals))

    def _held_share(self, prompt: RoutedPrompt) -> float:
        """Return the share of a waiting prompt's tokens that its replica holds now; the caller holds the lock."""
        return 0.0 if self._fleet is None else self._fleet.held_share(prompt)

    def _ask(self, question: Callable[[Engine], T]) -> T:
        """Ask any replica that is up a question that all replicas answer alike.

        Raises:
            EngineUnavailableError: no replica is up.
        """
        while True:
            engine = self._known()
            try:
                return question(engine)
            except EngineUnavailableError:
                with self.lock:  # the replica has just died
                    self.refresh()

    def _forward(self, question: Callable[[EngineExtras], T]) -> T:
        return self._ask(lambda engine: question(extras_of(engine)))

    def _known(self) -> Engine:
        """Return the engine of any replica that is up.

        Raises:
            EngineUnavailableError: no replica is up.
        """
        for replica in list(self._replicas.values()):
            if replica.up and replica.engine.alive:
                return replica.engine
        with self.lock:
            self.refresh()
            for replica in self._replicas.values():
                if replica.up and replica.engine.alive:
                    return replica.engine
        reasons = "; ".join(f"{r.name}: {r.error}" for r in self._replicas.values() if r.error)
        raise EngineUnavailableError(f"no replica of {self._name} is up ({reasons or 'the engine is closed'})")

    def _join(self, replica: Replica, engine: Engine) -> None:
        """Mark a replica with an open engine as up; the caller holds the lock."""
        revision = extras_of(engine).shared_revision or engine.revision
        if self._revision is None:
            self._revision = revision
        if revision != self._revision:
            replica.error = f"{replica.name} has revision {revision!r}, other replicas have {self._revision!r}"
            _log.error("replica rejected: its model differs", replica=replica.name)
            return
        cache = engine.prefix_cache or _NONE
        if self._fleet is None:
            self._fleet = Fleet(cache.block_tokens, self.costs.rates())
            for _ in self._replicas:
                self._fleet.lose(self._fleet.add(None))
        events = extras_of(engine).kv_events
        kept = self._fleet.caches[replica.number]
        kept.capacity = _UNKNOWN_BLOCKS if cache.blocks is None else cache.blocks
        kept.exact = False  # until the subscription is connected
        if events is not None:
            from flightllm.router.kv_events import KvSubscription

            mirror = KvMirror(self._fleet.tree, kept)
            self._subscriptions[replica.number] = KvSubscription(events, mirror, self.lock, kept.follow)
        self._fleet.bring_back(replica.number)
        replica.up, replica.error, replica.joined = True, None, engine
        _log.info("replica up", replica=replica.name, engine=engine.name, kv_events=events is not None)

    def _forget(self, number: int) -> None:
        """Stop following a replica's events; the caller holds the lock."""
        subscription = self._subscriptions.pop(number, None)
        if subscription is not None:
            subscription.stop()

    def _leave(self, replica: Replica) -> None:
        while self._is_busy(replica) and not self._closed:
            time.sleep(_LEAVE_POLL_SECONDS)
        with self.lock:
            self._forget(replica.number)
            self.fleet.lose(replica.number)
            del self._replicas[replica.number]
        replica.engine.close()
        _log.info("replica gone", replica=replica.name)

    def _is_busy(self, replica: Replica) -> bool:
        with self.lock:
            return replica.up and replica.in_flight + replica.waiting > 0

    def _status(self, replica: Replica) -> ReplicaStatus:
        fleet, number = self._fleet, replica.number
        cache = None if fleet is None else fleet.caches[number]
        load = 0.0 if fleet is None else float(fleet.prefill[number] + fleet.decode[number])
        return ReplicaStatus(
            number,
            replica.name,
            replica.state,
            replica.error,
            replica.in_flight,
            replica.waiting,
            load,
            replica.answered,
            replica.prompt_tokens,
            replica.cached_tokens,
            0 if cache is None else min(cache.used, cache.capacity or cache.used),  # `used` can exceed `capacity`
            None if cache is None else cache.capacity,
            number in self._subscriptions and self._subscriptions[number].connected,
        )


def _salt(request: Request) -> bytes:
    return cache_salt(request.tenant).encode()
