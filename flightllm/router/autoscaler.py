"""Adjust the number of replicas of a routed engine, and reopen replicas that died while idle."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Final

import structlog

from flightllm.errors import EngineUnavailableError
from flightllm.llm.engine import Engine
from flightllm.router.engine import RoutedEngine
from flightllm.router.scaling import ReplicaLoad, Scaling, Seen, decide

_LOOK_SECONDS: Final = 0.5
_log = structlog.get_logger(__name__)


class Autoscaler:
    """A thread that adds and removes replicas of an engine as `decide` says, until it is closed."""

    def __init__(self, engine: RoutedEngine, name: str, create: Callable[[], Engine], scaling: Scaling) -> None:
        """Start the thread. `create` opens a new replica's engine.

        A new replica's name is `name` plus a number; the numbering continues after the present replicas.
        """
        self._engine = engine
        self._name = name
        self._create = create
        self._scaling = scaling
        self._numbers = count(engine.replicas)
        self._seen: Seen | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="autoscaler", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread; the replicas stay as they are. Idempotent."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(_LOOK_SECONDS):
            try:
                self._find_dead()
                self._scale()
            except EngineUnavailableError:
                continue  # no replica is up; each of them is being reopened
            except Exception:  # noqa: BLE001 - a failure to add or remove a replica must not end the thread
                _log.exception("autoscaler failed")

    def _find_dead(self) -> None:
        """Reopen idle replicas that died: only a call of `generate` makes the supervisor notice the death."""
        for status in self._engine.status():
            with suppress(KeyError, EngineUnavailableError):  # the replica was just removed, or is dead as expected
                engine = self._engine.replica(status.number).engine
                if status.state != "leaving" and not engine.alive:
                    list(engine.generate(iter(()), lambda: False))

    def _scale(self) -> None:
        loads = {
            one.number: ReplicaLoad(one.load_seconds, one.in_flight + one.waiting, one.state == "up")
            for one in self._engine.status()
            if one.state != "leaving"
        }
        change, self._seen = decide(self._scaling, loads, time.monotonic(), self._seen)
        for _ in range(change.add):
            name = f"{self._name} {next(self._numbers)}"
            self._engine.add(name, self._create)
            _log.info("replica added", replica=name, replicas=len(loads) + change.add)
        if change.remove is not None:
            _log.info("replica removed", replica=self._engine.replica(change.remove).name, replicas=len(loads) - 1)
            self._engine.remove(change.remove)
