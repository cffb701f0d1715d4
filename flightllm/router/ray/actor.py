"""What runs in the Ray actor of a replica: an engine of any other kind, asked by calls that never wait for answers."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from queue import Empty, SimpleQueue
from socket import create_server
from typing import Any, Final, TypeAlias, cast

from flightllm import errors
from flightllm.config import EngineConfig
from flightllm.errors import CancelledError, FlightLLMError
from flightllm.llm import create_engine
from flightllm.model.engine import Completion, Engine, KvEventsAddress, PrefixCache, Request

_PAUSE_SECONDS: Final = 0.05
"""After so long without a request an engine is told that there is none just now."""
_TAKE_SECONDS: Final = 10.0
_TAKEN: Final = 1_024
"""Most answers in one message."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error on its way to another process: not every class of ours can be pickled, and not any of others."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Note an error; what is not one of ours becomes an `EngineError`."""
        if isinstance(error, FlightLLMError):
            return cls(type(error).__name__, str(error))
        return cls("EngineError", f"the engine failed: {type(error).__name__}: {error}")

    def error(self) -> FlightLLMError:
        """Return the error of the same class and words."""
        kind = getattr(errors, self.kind)
        found = cast("FlightLLMError", kind.__new__(kind))
        found.args = (self.message,)
        return found


@dataclass(frozen=True, slots=True)
class Description:
    """What never changes of an engine, told once."""

    name: str
    revision: str
    prefix_cache: PrefixCache | None
    context_tokens: int | None
    separates_tenants: bool
    kv_events: KvEventsAddress | None
    """Where it tells of its prefix cache, if it does."""
    pid: int


Opened: TypeAlias = Description | Failure
Answer: TypeAlias = tuple[int, Completion | Failure]
"""The group that asked, and what came of it: a failure is that of the whole group."""


class ReplicaActor:
    """The actor. Ray calls its methods one after the other, in order, but `take` beside them."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._groups: dict[int, Group] = {}
        self._answers: SimpleQueue[Answer] = SimpleQueue()

    def open(
        self,
        asking_node: str,
        kind: str,
        model: str,
        window: int,
        options: Mapping[str, object],
        reasoning: str | None = None,
    ) -> Opened:
        """Create the engine, and describe it to a process on a node of this id."""
        ray: Any = import_module("ray")
        here = ray.get_runtime_context().get_node_id() == asking_node
        try:
            given = options if here else published(options)
            engine = self._engine = create_engine(EngineConfig(kind, model, window, given, reasoning=reasoning))
        except Exception as error:  # noqa: BLE001 - passed on
            return Failure.of(error)
        return Description(
            engine.name,
            engine.revision,
            engine.prefix_cache,
            getattr(engine, "context_tokens", None),
            bool(getattr(engine, "separates_tenants", False)),
            reached(getattr(engine, "kv_events", None), None if here else ray.util.get_node_ip_address()),
            os.getpid(),
        )

    def ask(self, group: int, requests: Sequence[Request]) -> None:
        """Hand requests to the engine, as part of a group's call of `generate`, which begins with the first ones."""
        if self._engine is None:
            return
        if group not in self._groups:
            self._groups[group] = Group(group, self._engine, self._answers.put)
        self._groups[group].ask(requests)

    def end(self, group: int) -> None:
        """End a group's call, and abort what it has in flight."""
        ended = self._groups.pop(group, None)
        if ended is not None:
            ended.end()

    def take(self) -> list[Answer]:
        """Wait a while for answers, and return those that are there."""
        taken: list[Answer] = []
        with suppress(Empty):
            taken.append(self._answers.get(timeout=_TAKE_SECONDS))
            while len(taken) < _TAKEN:
                taken.append(self._answers.get_nowait())
        return taken

    def close(self) -> None:
        """Release the engine: what else it started does not always end with this process."""
        for group in list(self._groups):
            self.end(group)
        if self._engine is not None:
            self._engine.close()


def published(options: Mapping[str, object]) -> Mapping[str, object]:
    """Return options of an engine that is to tell events such that other hosts hear them too: at any free ports."""
    if options.get("kv_events") is not True:
        return options
    with create_server(("", 0)) as one, create_server(("", 0)) as other:
        ports = one.getsockname()[1], other.getsockname()[1]
    return {**options, "kv_events": f"tcp://*:{ports[0]}", "kv_replay": f"tcp://*:{ports[1]}"}


def reached(address: KvEventsAddress | None, host: str | None) -> KvEventsAddress | None:
    """Return the address as it is reached from another host than `host`, where that is given; None where it is not."""
    if address is None or host is None:
        return address
    if not address.endpoint.startswith("tcp://"):
        return None
    endpoint, replay = (text.replace("127.0.0.1", host) for text in (address.endpoint, address.replay))
    return replace(address, endpoint=endpoint, replay=replay)


class Group:
    """One call of the engine's `generate`, in a thread; its requests come bit by bit."""

    def __init__(self, number: int, engine: Engine, answer: Callable[[Answer], None]) -> None:
        self._number = number
        self._engine = engine
        self._answer = answer
        self._asked: SimpleQueue[Request | None] = SimpleQueue()
        self._in_flight = 0
        self._ended = threading.Event()
        threading.Thread(target=self._run, name=f"group-{number}", daemon=True).start()

    def ask(self, requests: Sequence[Request]) -> None:
        """Add requests."""
        for request in requests:
            self._asked.put(request)

    def end(self) -> None:
        """Abort what is in flight, and let the thread end."""
        self._ended.set()
        self._asked.put(None)

    def _run(self) -> None:
        try:
            with closing(cast("Any", self._engine.generate(self._feed(), self._ended.is_set))) as completions:
                for completion in completions:
                    self._in_flight -= 1
                    self._answer((self._number, completion))
        except CancelledError:
            pass
        except Exception as error:  # noqa: BLE001 - passed on
            self._answer((self._number, Failure.of(error)))

    def _feed(self) -> Iterator[Request | None]:
        """Yield requests as they come; wait for one only where no answer can come meanwhile."""
        while not self._ended.is_set():
            try:
                request = self._asked.get_nowait() if self._in_flight else self._asked.get(timeout=_PAUSE_SECONDS)
            except Empty:
                yield None
                continue
            if request is not None:
                self._in_flight += 1
                yield request
