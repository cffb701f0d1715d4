"""Describe the engine, cache and budget that answer the calls of one kind, or of one language model."""

from dataclasses import dataclass, field

from flightllm.common.priority import Precedence
from flightllm.model.cost import Costs
from flightllm.model.engine import Engine
from flightllm.model.prompt_formats import PLAIN, PromptFormat
from flightllm.operators.budget import Budget
from flightllm.operators.flights import Flights
from flightllm.operators.overlay import Answers


@dataclass(frozen=True, slots=True)
class Backing:
    """The engine and answer cache that one run of a query uses: the real ones, or free stand-ins for a prediction."""

    engine: Engine
    cache: Answers
    flights: Flights
    window: int
    """The number of prompts that each replica of the engine keeps in flight."""
    budget: Budget | None = None
    reader: str = ""
    """The user whose answers these are, if that user sees only a part of a table; otherwise empty: all users share."""
    tenant: str = ""
    """The tenant whose prompts can share prefixes in the engine's cache."""
    costs: Costs = field(default_factory=Costs)
    """The engine's speed."""
    precedence: Precedence = field(default_factory=Precedence)
    """The query's priority over prompts of other queries."""
    replicas: int = 1
    """The number of engines behind `engine`."""
    repair: bool = True
    """Whether to ask once more after an unusable answer to a constrained call."""
    prompt_format: PromptFormat = PLAIN
    """The format of the prompts."""

    @property
    def revision(self) -> str:
        """Return the part of the cache key that separates these answers from others to the same prompt."""
        revision = self.engine.revision
        if not self.prompt_format.plain:
            revision = f"{revision} asked {self.prompt_format.name}"
        return f"{revision} for {self.reader}" if self.reader else revision
