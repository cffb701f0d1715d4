"""Describe the calls of a pass, and the engine, cache and limits that an asker uses to answer them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from flightllm.functions.call import AICall
from flightllm.model.prompt_formats import PLAIN, PromptFormat
from flightllm.operators.backing import Backing
from flightllm.operators.cache import Keys
from flightllm.operators.conditions import Conditions
from flightllm.operators.demand import Demand
from flightllm.operators.flights import Claims
from flightllm.operators.rows import Counters, Named
from flightllm.plan.stages import Condition


@dataclass(frozen=True, slots=True)
class Site:
    """One call of the pass."""

    ai: AICall
    arguments: tuple[tuple[int, ...], ...]
    """For each field of `ai`, the position of its value in a unit's tuples.

    A list has one position per element, if its elements have positions.
    """
    order: tuple[int, ...]
    """Positions in a unit's tuples in prompt order, for units without orders of their own."""
    when: int | None
    """The boolean column that is true for the rows that need the call."""
    guard: Condition | None
    """The condition that is true for the rows that need the call, in place of the column `when`."""
    keys: Keys
    counters: Counters
    fields_first: bool = False
    """The prompt begins with the fields, which several calls share, and not with the instruction."""
    prompt_format: PromptFormat = PLAIN

    @property
    def repeats(self) -> bool:
        """Tell whether distinct tuples can have one key: through lists, normalised values, or unused columns."""
        read = {place for places in self.arguments for place in places}
        return len(read) < len(self.order) or bool(self.ai.normalize or self.ai.lists)

    def prompt(self, fields: Sequence[tuple[str, str]]) -> str:
        """Return the text of the call's prompt for named values in prompt order."""
        return self.ai.prompt(fields, fields_first=self.fields_first, prompt_format=self.prompt_format)

    def fields_part(self, prompt: str) -> int:
        """Return how many leading characters the prompt shares with other calls over the same values."""
        return self.prompt_format.shared_start(prompt, self.prompt([])) if self.fields_first else 0

    def named(self, order: Sequence[int]) -> list[Named]:
        """Return the fields in prompt order. Of a list, only the first element is required."""
        rank = {place: at for at, place in enumerate(order)}
        places = [(rank[place], place, f) for f, places in enumerate(self.arguments) for place in places]
        ai = self.ai
        return [
            (ai.fields[f], place, f in ai.required and place == self.arguments[f][0], f in ai.lists)
            for _, place, f in sorted(places)
        ]


@dataclass(frozen=True, slots=True)
class Means:
    """The engine, cache and limits that an asker works with."""

    backing: Backing
    claims: Claims
    conditions: Conditions | None = None
    """Required where a step has a condition or a call has a guard."""
    demand: Demand = field(default_factory=Demand)
    dedup: bool = True
    expected: bool = True
    """The number of prompts is known, and counted, before the first prompt."""
