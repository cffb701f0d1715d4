"""The engine that answers the calls of one kind or of one language model, and the cache of its answers."""

from dataclasses import dataclass, field

from flightllm.common.priority import Precedence
from flightllm.llm.cost import Costs
from flightllm.llm.engine import Engine
from flightllm.llm.prompt_formats import PLAIN, PromptFormat
from flightllm.operators.budget import RequestBudget
from flightllm.operators.in_flight import InFlightRequests
from flightllm.operators.read_through import Answers


@dataclass(frozen=True, slots=True)
class ModelBinding:
    """The engine and the answer cache of one run of a query. A dry run binds substitutes that cost nothing."""

    engine: Engine
    cache: Answers
    in_flight: InFlightRequests
    window: int
    """Prompts that each replica of the engine keeps in flight."""
    budget: RequestBudget | None = None
    reader: str = ""
    """The only user who can reuse these answers, because of a right to a part of a table; empty: all users can."""
    tenant: str = ""
    """Prompts of one tenant can share prefixes in the engine's cache."""
    costs: Costs = field(default_factory=Costs)
    """The engine's speed."""
    precedence: Precedence = field(default_factory=Precedence)
    """The priority of the query's next prompt."""
    replicas: int = 1
    """The number of engines behind `engine`."""
    repair: bool = True
    """A prompt is sent a second time if its answer has the wrong form."""
    prompt_format: PromptFormat = PLAIN
    """The format of prompts for the model."""

    @property
    def revision(self) -> str:
        """Return the beginning of an answer's cache key: the model, the prompt format and the reader."""
        revision = self.engine.revision
        if not self.prompt_format.plain:
            revision = f"{revision} asked {self.prompt_format.name}"
        return f"{revision} for {self.reader}" if self.reader else revision
