"""What an asker is given: the calls of its pass, and the means to have them answered."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from flightllm.ai import AICall
from flightllm.operators.backing import Backing
from flightllm.operators.cache import Keys
from flightllm.operators.conditions import Conditions
from flightllm.operators.demand import Demand
from flightllm.operators.flights import Claims
from flightllm.operators.rows import Counters
from flightllm.plan.stages import Condition


@dataclass(frozen=True, slots=True)
class Site:
    """One call of the pass."""

    ai: AICall
    arguments: tuple[int, ...]
    """For each field of `ai`, the place of its value in a unit's tuples."""
    order: tuple[int, ...]
    """Positions in a unit's tuples in prompt order, for units that have no orders of their own."""
    when: int | None
    """The column that says which rows need the call."""
    guard: Condition | None
    """What says so instead."""
    keys: Keys
    counters: Counters
    fields_first: bool = False
    """The prompt begins with the fields, which several calls share, instead of the instruction."""

    def named(self, order: Sequence[int]) -> list[tuple[str, int, bool]]:
        """Return names, places and whether they must be given, of the fields in prompt order."""
        rank = {place: at for at, place in enumerate(order)}
        fields = sorted(range(len(self.ai.fields)), key=lambda f: rank[self.arguments[f]])
        return [(self.ai.fields[f], self.arguments[f], f in self.ai.required) for f in fields]


@dataclass(frozen=True, slots=True)
class Means:
    """What an asker works with, beside the calls."""

    backing: Backing
    claims: Claims
    conditions: Conditions | None = None
    """Needed where a step has a condition or a call a guard."""
    demand: Demand = field(default_factory=Demand)
    dedup: bool = True
    expected: bool = True
    """How many prompts there will be is known, and counted, before the first."""
