"""An engine in a Ray actor on any node of the cluster, used like an engine in this process."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, groupby
from operator import itemgetter
from typing import Any, Final

import structlog

from flightllm.config import EngineConfig
from flightllm.engines.extras import EngineExtras
from flightllm.engines.shares import Shares
from flightllm.engines.window import LoopThread, Window
from flightllm.errors import EngineUnavailableError, FlightLLMError
from flightllm.llm.engine import Completion, KvEventsAddress, PrefixCache, Request
from flightllm.router.ray.actor import ActorFailure, EngineDescription, ReplicaActor
from flightllm.router.ray.connection import node_is_lost
from flightllm.router.ray.tokens import Tokens

_CHARS_PER_TOKEN: Final = 4
_CLOSE_SECONDS: Final = 2.0
"""The replica waits this long for its engine to close. Then it kills the actor and all processes of the engine."""
_LOOK_SECONDS: Final = 5.0
_SILENT_SECONDS: Final = 60.0
"""An actor that is silent for this long counts as dead: a living actor returns from `take` at least every 10 s."""
_ANSWERS: Final = "answers"
"""The concurrency group of `take`: Ray runs `take` while other calls of the actor run."""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Placement:
    """The resources that an actor requires of its node, and the time limit for its start."""

    num_cpus: float = 1.0
    num_gpus: float = 0.0
    resources: Mapping[str, object] = field(default_factory=dict)
    runtime_env: Mapping[str, object] = field(default_factory=dict)
    start_seconds: float = 600.0

    def __post_init__(self) -> None:
        for name in ("num_cpus", "num_gpus"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}: expected a number from 0 on, got {getattr(self, name):g}")
        for name, amount in self.resources.items():
            if isinstance(amount, bool) or not isinstance(amount, (int, float)) or not amount >= 0:
                raise ValueError(f"resources: expected a number from 0 on for {name!r}, got {amount!r}")
        if not self.start_seconds > 0:
            raise ValueError(f"start_seconds: expected a number above 0, got {self.start_seconds:g}")


class RayReplica(EngineExtras):
    """The client of an engine in its own Ray actor; `config` describes the engine. Ray must be connected.

    One call of `take` is always open, and returns all available answers. So the actor sends fewer and larger messages
    under load, and the client notices the actor's death at once.
    """

    def __init__(self, config: EngineConfig, placement: Placement, tokens: Tokens | None = None) -> None:
        """Start the actor, and wait until its engine is ready. `tokens` is the model's tokenizer in this process.

        Raises:
            FlightLLMError: the actor raised this error when it created the engine.
            EngineUnavailableError: the actor did not start.
        """
        self._name = f"{config.kind} ({config.model}) on Ray"
        self._window = config.max_in_flight
        self._shares = Shares(self._window)
        self._groups = count()
        self._tokens = tokens
        self._keeps_fields = config.kind == "fake"
        self._waiting: dict[tuple[int, int], asyncio.Future[Completion]] = {}
        """Answers to come, by group and request id. Only the loop's thread uses `_waiting`, `_outbox` and `_death`."""
        self._outbox: list[tuple[int, Request]] = []
        self._death: str | None = None
        self._closed = False
        self._loop = LoopThread("ray-replica")
        try:
            self._actor = _actor(placement)
            _log.info("starting an actor when the cluster has room", engine=self._name, within=placement.start_seconds)
            self._take = self._actor.take.options(concurrency_group=_ANSWERS)
            self._about = self._loop.run(self._open(config, placement.start_seconds))
        except BaseException:
            self.close()
            raise
        self._name = f"{self._about.name} on Ray"
        self._receiving = self._loop.run(self._start())

    @property
    def name(self) -> str:
        """Return the kind and model of the engine in the actor."""
        return self._name

    @property
    def pid(self) -> int:
        """Return the id of the actor's process, on its node."""
        return self._about.pid

    @property
    def alive(self) -> bool:
        """Return False once this process knows that the actor is dead."""
        return self._death is None

    @property
    def reason(self) -> str | None:
        """Return why the actor is dead, or None."""
        return self._death

    @property
    def revision(self) -> str:
        """Return the revision of the engine in the actor."""
        return self._about.revision

    @property
    def prefix_cache(self) -> PrefixCache | None:
        """Return the prefix cache of the engine in the actor."""
        return self._about.prefix_cache

    @property
    def kv_events(self) -> KvEventsAddress | None:
        """Return the address of the engine's KV events; None if it publishes no events, or only to its own node."""
        return self._about.kv_events

    @property
    def separates_tenants(self) -> bool:
        """Return whether the engine keeps tenants' prefixes apart."""
        return self._about.separates_tenants

    @property
    def joins_questions(self) -> bool:
        """Return whether requests about the same values cost less as neighbours."""
        return self._about.joins_questions

    @property
    def gives_probabilities(self) -> bool:
        """Return whether answers can come with the probabilities of options, as far as was known at the start."""
        return self._about.gives_probabilities

    @property
    def least_answer_tokens(self) -> int:
        """Return the fewest tokens that an answer can have."""
        return self._about.least_answer_tokens

    @property
    def has_tokenizer(self) -> bool:
        """Return whether this process has the model's tokenizer."""
        return self._tokens is not None

    def token_ids(self, prompts: Sequence[str]) -> list[list[int]]:
        """Return the tokens that the model gets for each prompt; only if this process has the tokenizer."""
        return super().token_ids(prompts) if self._tokens is None else self._tokens.encode(prompts)

    @property
    def context_tokens(self) -> int | None:
        """Return how many tokens a prompt can have together with its answer; None if this is unknown."""
        known = self._about.context_tokens
        return sys.maxsize if known is None and self._tokens is not None else known

    @property
    def callers(self) -> int:
        """Return how many calls of `generate` share the engine at present."""
        return self._shares.callers

    @property
    def in_flight(self) -> int:
        """Return how many prompts the engine is answering."""
        return self._shares.in_flight

    def count_tokens(self, text: str) -> int:
        """Count the tokens of `text`; without the model's tokenizer, each four characters count as one token."""
        return -(-len(text) // _CHARS_PER_TOKEN) if self._tokens is None else self._tokens.count(text)

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Answer requests, with up to `max_in_flight` at the same time; see `Engine.generate`."""
        if self._death is not None:
            raise EngineUnavailableError(self._death)
        group = next(self._groups)
        window = Window(self._loop, partial(self._answer, group), self._window, shares=self._shares)
        try:
            yield from window.stream(requests, cancelled)
        finally:
            self._loop.call(partial(self._end, group))

    def close(self) -> None:
        """Release the engine and end the actor. Idempotent."""
        if self._closed:
            return
        self._closed = True
        try:
            if hasattr(self, "_actor"):
                self._loop.run(self._stop())
        finally:
            self._loop.close()

    async def _open(self, config: EngineConfig, seconds: float) -> EngineDescription:
        import ray

        node = ray.get_runtime_context().get_node_id()
        given = config.kind, config.model, config.max_in_flight, dict(config.options), config.reasoning
        call = self._actor.open.remote(node, *given)
        try:
            found: EngineDescription | ActorFailure = await asyncio.wait_for(_unless_lost(call), seconds)
        except TimeoutError as error:
            raise EngineUnavailableError(
                f"the engine {self._name} did not start within start_seconds = {seconds:g}: run `ray status` to"
                " see whether the cluster has room for one more replica (num_cpus, num_gpus, resources)"
            ) from error
        except Exception as error:
            raise EngineUnavailableError(f"the engine {self._name} did not start: {_reason(error)}") from error
        if isinstance(found, ActorFailure):
            raise found.error()
        return found

    async def _start(self) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self._receive())

    async def _answer(self, group: int, chunk: Sequence[Request]) -> list[Completion]:
        [request] = chunk
        if self._death is not None:
            raise EngineUnavailableError(self._death)
        loop = asyncio.get_running_loop()
        answer = self._waiting[group, request.id] = loop.create_future()
        if not self._outbox:
            loop.call_soon(self._send)  # one message for all requests of this turn of the loop
        self._outbox.append((group, request if self._keeps_fields else _bare(request)))
        try:
            return [await answer]
        finally:
            self._waiting.pop((group, request.id), None)

    def _send(self) -> None:
        requests, self._outbox = self._outbox, []
        for group, some in groupby(requests, itemgetter(0)):
            with suppress(Exception):  # the actor is gone: `_receive` gets an error too
                self._actor.ask.remote(group, [request for _, request in some])

    def _end(self, group: int) -> None:
        # A request that is sent after `end` would start the group again, and no call would end the group.
        self._outbox = [one for one in self._outbox if one[0] != group]
        if self._death is None:
            with suppress(Exception):
                self._actor.end.remote(group)

    async def _receive(self) -> None:
        """Deliver answers until the actor dies or the replica is closed."""
        try:
            while True:
                for group, result in await asyncio.wait_for(self._take.remote(), _SILENT_SECONDS):
                    self._hand_out(group, result)
        except Exception as error:  # noqa: BLE001 - the actor, its node, the cluster or the connection failed
            silent = f"its actor was silent for {_SILENT_SECONDS:g} s"
            self._death = f"the engine {self._name} died: {silent if type(error) is TimeoutError else _reason(error)}"
            if not self._closed:
                _log.warning("ray actor lost", engine=self._name, pid=self.pid)
            for answer in list(self._waiting.values()):
                _fail(answer, EngineUnavailableError(self._death))

    def _hand_out(self, group: int, result: Completion | ActorFailure) -> None:
        if isinstance(result, Completion):
            answer = self._waiting.get((group, result.id))  # None: the caller has stopped waiting
            if answer is not None and not answer.done():
                answer.set_result(result)
            return
        for (asked_by, _), answer in list(self._waiting.items()):
            if asked_by == group:
                _fail(answer, result.error())

    async def _stop(self) -> None:
        """Close the engine, so that the engine ends its own processes; then kill the actor."""
        import ray

        if self._death is None:
            with suppress(Exception):  # the actor is dead or hangs
                await asyncio.wait_for(self._actor.close.remote(), _CLOSE_SECONDS)
        with suppress(Exception):
            ray.kill(self._actor)


def _actor(placement: Placement) -> Any:
    """Start an actor that Ray does not restart: the router sends a dead actor's prompts elsewhere at once."""
    import ray

    options: dict[str, Any] = {
        "num_cpus": placement.num_cpus,
        "num_gpus": placement.num_gpus,
        "resources": dict(placement.resources),
        "concurrency_groups": {_ANSWERS: 1},
        "max_restarts": 0,
        "scheduling_strategy": "SPREAD",  # so that few replicas are lost with one node
    }
    if placement.runtime_env:
        options["runtime_env"] = dict(placement.runtime_env)
    try:
        return ray.remote(**options)(ReplicaActor).remote()
    except Exception as error:
        raise EngineUnavailableError(f"cannot start a replica on Ray: {_reason(error)}") from error


async def _unless_lost(call: Any) -> Any:
    """Wait for a call; raise an error if the cluster is lost.

    A call does not always return when the cluster is lost.
    """
    waited = asyncio.ensure_future(call)
    while not (await asyncio.wait({waited}, timeout=_LOOK_SECONDS))[0]:
        if await asyncio.to_thread(node_is_lost):
            raise EngineUnavailableError("the Ray cluster is lost: run `ray status` to see whether it is up")
    return await waited


def _bare(request: Request) -> Request:
    """Return a request without the fields that only the fake engine reads."""
    return replace(request, function="", instruction="", fields=())


def _fail(answer: asyncio.Future[Completion], error: FlightLLMError) -> None:
    if not answer.done():
        answer.set_exception(error)


def _reason(error: Exception) -> str:
    """Return the first line of a Ray error; the other lines are for Ray's developers."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
