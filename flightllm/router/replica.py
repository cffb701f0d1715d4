"""One replica of a cluster: its engine, its present work and its totals."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from flightllm.config import RecoveryConfig
from flightllm.engines.supervised import SupervisedEngine
from flightllm.llm.cost import Costs, Work
from flightllm.llm.engine import Completion, Engine
from flightllm.router.replica_queue import ReplicaQueue

_OBSERVED_SECONDS = 1.0
_FAIL_AT_ONCE = RecoveryConfig(on_engine_down="fail")
"""When a replica dies, its prompts fail at once and are routed to others; the replica is reopened meanwhile."""


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """The state of a replica at one time."""

    number: int
    name: str
    state: str
    """`up`, `down`, or `leaving`: the replica finishes its prompts and is then removed."""
    error: str | None
    """Why the replica is down."""
    in_flight: int
    """The number of prompts that the engine is answering."""
    waiting: int
    """The number of prompts in the replica's queue."""
    load_seconds: float
    """The predicted seconds of work for both."""
    answered: int
    prompt_tokens: int
    cached_tokens: int
    held_blocks: int
    """The number of blocks in the prefix cache: an estimate, or the truth from KV events."""
    cache_blocks: int | None
    kv_events: bool


class Replica:
    """An engine that is reopened when it dies. The lock of `RoutedEngine` guards all other fields."""

    def __init__(
        self,
        number: int,
        name: str,
        create: Callable[[], Engine],
        queue: ReplicaQueue,
        *,
        in_background: bool = False,
    ) -> None:
        """Open the engine; `in_background` lets a thread open it. `queue` holds the waiting prompts of all queries.

        Raises:
            FlightLLMError: `create` raised this error.
        """
        self.number = number
        self.name = name
        self.queue = queue
        self.engine = SupervisedEngine(name, create, _FAIL_AT_ONCE, in_background=in_background)
        self.up = False
        self.leaving = False
        self.error: str | None = "the replica is being opened"
        self.in_flight = 0
        self.answered = 0
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.joined: Engine | None = None
        """The engine that was open when the replica was marked as up."""
        self._busy_since = 0.0
        self._work = Work()

    @property
    def state(self) -> str:
        """Return `up`, `down` or `leaving`."""
        return "leaving" if self.leaving else "up" if self.up else "down"

    @property
    def waiting(self) -> int:
        """Return the number of prompts in the queue."""
        return len(self.queue)

    def sent(self) -> None:
        """Count a prompt as handed to the engine."""
        if not self.in_flight:
            self._busy_since, self._work = time.monotonic(), Work()
        self.in_flight += 1

    def ended(self, completion: Completion | None, costs: Costs) -> None:
        """Count a prompt as answered, or as aborted without a completion; learn from the work since the last time."""
        self.in_flight -= 1
        if completion is not None:
            self.answered += 1
            self.prompt_tokens += completion.prompt_tokens
            self.cached_tokens += completion.cached_tokens
            self._work += Work(1, completion.prompt_tokens, completion.cached_tokens, completion.completion_tokens)
        now = time.monotonic()
        seconds = now - self._busy_since
        if self._work.calls and (seconds >= _OBSERVED_SECONDS or not self.in_flight):
            costs.observe(self._work, seconds)
            self._busy_since, self._work = now, Work()
