"""One replica of a cluster: its engine, what it does now, and what it did so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from flightllm.config import RecoveryConfig
from flightllm.llm.supervised import SupervisedEngine
from flightllm.model.cost import Costs, Work
from flightllm.model.engine import Completion, Engine

_OBSERVED_SECONDS = 1.0
_FAIL_AT_ONCE = RecoveryConfig(on_engine_down="fail")
"""A replica's prompts go elsewhere when it dies; it is opened again meanwhile."""


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """A replica as it is at one time."""

    number: int
    name: str
    state: str
    """`up`, `down`, or `leaving`: it ends what it has begun, and then is gone."""
    error: str | None
    """Why it is down."""
    in_flight: int
    """Prompts that its engine is answering."""
    waiting: int
    """Prompts that are to be sent to it."""
    load_seconds: float
    """How long it will take for both, as predicted."""
    answered: int
    prompt_tokens: int
    cached_tokens: int
    held_blocks: int
    """Blocks that its prefix cache is thought to hold, or known to by its events."""
    cache_blocks: int | None
    kv_events: bool


class Replica:
    """An engine that is opened again when it dies. The engine's own lock guards all else."""

    def __init__(self, number: int, name: str, create: Callable[[], Engine], *, beside: bool = False) -> None:
        """Open the engine; with `beside` in the background.

        Raises:
            FlightLLMError: what `create` raises.
        """
        self.number = number
        self.name = name
        self.engine = SupervisedEngine(name, create, _FAIL_AT_ONCE, beside=beside)
        self.up = False
        self.leaving = False
        self.error: str | None = "it is being opened"
        self.in_flight = 0
        self.waiting = 0
        self.answered = 0
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.joined: Engine | None = None
        """What was open when it came into use."""
        self._busy_since = 0.0
        self._work = Work()

    @property
    def state(self) -> str:
        """Return whether it is up, down or leaving."""
        return "leaving" if self.leaving else "up" if self.up else "down"

    def sent(self) -> None:
        """Count a prompt as handed to the engine."""
        if not self.in_flight:
            self._busy_since, self._work = time.monotonic(), Work()
        self.in_flight += 1

    def ended(self, completion: Completion | None, costs: Costs) -> None:
        """Count a prompt as answered, or as given up, and learn from what was done since the last time."""
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
