"""The input of a CallExecutor: the call sites of its pass, and the services that answer their prompts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from flightllm.functions.call import AICall
from flightllm.llm.prompt_formats import PLAIN, PromptFormat
from flightllm.operators.cache import CacheKeys
from flightllm.operators.conditions import Conditions
from flightllm.operators.in_flight import Leases
from flightllm.operators.limit_tracker import LimitTracker
from flightllm.operators.model_binding import ModelBinding
from flightllm.operators.rows import Counters, Named
from flightllm.plan.stages import Condition


@dataclass(frozen=True, slots=True)
class CallSite:
    """One call of the pass.

    Example: `ai_filter('Is {a} like {b}?', a, b)`, whose tuples are `(a, b)` and whose prompts begin with `b`, has the
    arguments `((0,), (1,))` and the order `(1, 0)`.
    """

    ai: AICall
    arguments: tuple[tuple[int, ...], ...]
    """For each field of `ai`, the positions of its value in a tuple: one position, or one for each element of a
    list."""
    order: tuple[int, ...]
    """The positions of a tuple in prompt order, for batches that have no orders of their own."""
    when: int | None
    """The boolean column that says which rows need the call."""
    guard: Condition | None
    """The condition that says so in place of a column."""
    keys: CacheKeys
    counters: Counters
    fields_first: bool = False
    """The prompt begins with the fields, which several calls share, and not with the instruction."""
    prompt_format: PromptFormat = PLAIN

    @property
    def repeats(self) -> bool:
        """Return whether distinct tuples can have equal keys, because of lists, normalized values or unused columns."""
        used = {position for positions in self.arguments for position in positions}
        return len(used) < len(self.order) or bool(self.ai.normalize or self.ai.lists)

    def prompt(self, fields: Sequence[tuple[str, str]]) -> str:
        """Return the text of the call's prompt for named values in prompt order."""
        return self.ai.prompt(fields, fields_first=self.fields_first, prompt_format=self.prompt_format)

    def fields_part(self, prompt: str) -> int:
        """Return how many characters at a prompt's start are those of other calls over the same values too."""
        return self.prompt_format.shared_start(prompt, self.prompt([])) if self.fields_first else 0

    def named(self, order: Sequence[int]) -> list[Named]:
        """Return the fields in prompt order. Of a required list, only the first element must be there."""
        rank = {position: at for at, position in enumerate(order)}
        ranked = sorted(
            (rank[position], position, field_index)
            for field_index, positions in enumerate(self.arguments)
            for position in positions
        )
        ai = self.ai
        return [
            (ai.fields[f], position, f in ai.required and position == self.arguments[f][0], f in ai.lists)
            for _, position, f in ranked
        ]


@dataclass(frozen=True, slots=True)
class CallContext:
    """The services that one pass uses to answer its calls."""

    binding: ModelBinding
    leases: Leases
    conditions: Conditions | None = None
    """Needed if a step has a condition or a call has a guard."""
    tracker: LimitTracker = field(default_factory=LimitTracker)
    dedup: bool = True
    """Equal prompts are sent once; otherwise each tuple has a prompt of its own."""
    prompts_counted: bool = True
    """The number of prompts is known before the first one, and the caller has counted them."""
