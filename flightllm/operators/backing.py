"""What calls of one kind, or of one language model, are answered by and remembered with."""

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
    """What one run of a query asks and remembers with: the real engine and answers, or stand-ins that cost nothing."""

    engine: Engine
    cache: Answers
    flights: Flights
    window: int
    """Prompts the engine keeps in flight, each of its replicas."""
    budget: Budget | None = None
    reader: str = ""
    """Whose answers these are: of somebody who sees a part of a table only, else those that all share."""
    tenant: str = ""
    """Whose prompts may share prefixes in the engine's cache."""
    costs: Costs = field(default_factory=Costs)
    """How long the engine takes."""
    precedence: Precedence = field(default_factory=Precedence)
    """Which of the query's prompts go before those of others."""
    replicas: int = 1
    """Engines behind `engine`."""
    repair: bool = True
    """Whether an unusable answer of a constrained kind is asked for once more."""
    prompt_format: PromptFormat = PLAIN
    """How prompts are put to the model."""

    @property
    def revision(self) -> str:
        """Return what tells these answers from others to the same prompt."""
        revision = self.engine.revision
        if not self.prompt_format.plain:
            revision = f"{revision} asked {self.prompt_format.name}"
        return f"{revision} for {self.reader}" if self.reader else revision
