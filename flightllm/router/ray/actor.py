"""The Ray actor of a replica: it runs an engine of any other kind. Calls that send requests do not wait for answers."""

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
from flightllm.engines import create_engine
from flightllm.engines.extras import extras_of
from flightllm.errors import CancelledError, FlightLLMError
from flightllm.llm.engine import Completion, Engine, KvEventsAddress, PrefixCache, Request

_PAUSE_SECONDS: Final = 0.05
"""After this long without a request, the engine gets None, which means "no request at the moment"."""
_TAKE_SECONDS: Final = 10.0
_TAKEN: Final = 1_024
"""The most answers in one message."""


@dataclass(frozen=True, slots=True)
class ActorFailure:
    """An error on its way to another process: some of our error classes, and all foreign ones, cannot be pickled."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: Exception) -> ActorFailure:
        """Return a failure with the class and message of an error; a foreign error becomes an `EngineError`."""
        if isinstance(error, FlightLLMError):
            return cls(type(error).__name__, str(error))
        return cls("EngineError", f"the engine failed: {type(error).__name__}: {error}")

    def error(self) -> FlightLLMError:
        """Return an error of the same class and message."""
        kind = getattr(errors, self.kind)
        found = cast("FlightLLMError", kind.__new__(kind))
        found.args = (self.message,)
        return found


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """The properties of an engine that never change; the actor sends them once."""

    name: str
    revision: str
    prefix_cache: PrefixCache | None
    context_tokens: int | None
    separates_tenants: bool
    kv_events: KvEventsAddress | None
    """Where the engine publishes its KV events, if it does."""
    pid: int
    joins_questions: bool = False
    gives_probabilities: bool = True
    least_answer_tokens: int = 1


Opened: TypeAlias = EngineDescription | ActorFailure
Answer: TypeAlias = tuple[int, Completion | ActorFailure]
"""The group that asked, and the result: a failure applies to the whole group."""


class ReplicaActor:
    """The actor. Ray calls its methods one after the other, in order, except `take`, which runs concurrently."""

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
        """Create the engine, and return its description for a process on the node `asking_node`."""
        ray: Any = import_module("ray")
        here = ray.get_runtime_context().get_node_id() == asking_node
        try:
            given = options if here else published(options)
            engine = self._engine = create_engine(EngineConfig(kind, model, window, given, reasoning=reasoning))
        except Exception as error:  # noqa: BLE001 - sent to the asking process
            return ActorFailure.of(error)
        extras = extras_of(engine)
        return EngineDescription(
            engine.name,
            engine.revision,
            engine.prefix_cache,
            extras.context_tokens,
            extras.separates_tenants,
            reached(extras.kv_events, None if here else ray.util.get_node_ip_address()),
            os.getpid(),
            extras.joins_questions,
            extras.gives_probabilities,
            extras.least_answer_tokens,
        )

    def ask(self, group: int, requests: Sequence[Request]) -> None:
        """Pass requests to the engine in the group's call of `generate`; the first requests start this call."""
        if self._engine is None:
            return
        if group not in self._groups:
            self._groups[group] = Group(group, self._engine, self._answers.put)
        self._groups[group].ask(requests)

    def end(self, group: int) -> None:
        """End a group's call, and abort its requests in flight."""
        ended = self._groups.pop(group, None)
        if ended is not None:
            ended.end()

    def take(self) -> list[Answer]:
        """Wait up to `_TAKE_SECONDS` for an answer, and return the available answers."""
        taken: list[Answer] = []
        with suppress(Empty):
            taken.append(self._answers.get(timeout=_TAKE_SECONDS))
            while len(taken) < _TAKEN:
                taken.append(self._answers.get_nowait())
        return taken

    def close(self) -> None:
        """Release the engine: processes that it started do not always end with the actor's process."""
        for group in list(self._groups):
            self.end(group)
        if self._engine is not None:
            self._engine.close()


def published(options: Mapping[str, object]) -> Mapping[str, object]:
    """Return options with which the engine publishes its KV events to other hosts too, on free ports."""
    if options.get("kv_events") is not True:
        return options
    with create_server(("", 0)) as one, create_server(("", 0)) as other:
        ports = one.getsockname()[1], other.getsockname()[1]
    return {**options, "kv_events": f"tcp://*:{ports[0]}", "kv_replay": f"tcp://*:{ports[1]}"}


def reached(address: KvEventsAddress | None, host: str | None) -> KvEventsAddress | None:
    """Return the address at which other hosts reach the KV events.

    `host` is the name of the engine's host; None if the engine and its client share a host. Return None if other
    hosts cannot reach the address.
    """
    if address is None or host is None:
        return address
    if not address.endpoint.startswith("tcp://"):
        return None
    endpoint, replay = (text.replace("127.0.0.1", host) for text in (address.endpoint, address.replay))
    return replace(address, endpoint=endpoint, replay=replay)


class Group:
    """One call of the engine's `generate`, in a thread; the requests arrive over time."""

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
        """Abort the requests in flight, and let the thread end."""
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
        except Exception as error:  # noqa: BLE001 - sent to the asking process
            self._answer((self._number, ActorFailure.of(error)))

    def _feed(self) -> Iterator[Request | None]:
        """Yield requests as they arrive; wait for a request only while no request is in flight."""
        while not self._ended.is_set():
            try:
                request = self._asked.get_nowait() if self._in_flight else self._asked.get(timeout=_PAUSE_SECONDS)
            except Empty:
                yield None
                continue
            if request is not None:
                self._in_flight += 1
                yield request
