"""A prompt without an answer yet, and the places that need the answer."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from flightllm.llm.engine import Dispatch
from flightllm.operators.batches import PromptBatch
from flightllm.operators.budget import Reservation
from flightllm.operators.call_context import CallSite
from flightllm.operators.rows import Reading, Said, read_answer, sql_value

Fields: TypeAlias = list[tuple[str, str]]
"""The named values of one prompt, in prompt order."""


@dataclass(slots=True)
class OpenBatch:
    """A batch on its way through the steps of the pass."""

    batch: PromptBatch
    pending: int = 0
    """Answers that must come before the batch can go on."""
    begun: set[int] = field(default_factory=set)
    """The steps begun so far."""
    step: int | None = None
    """The step begun last."""
    rounds: list[tuple[int, ...]] = field(default_factory=list)
    """The rounds of `step` whose calls are not asked yet."""
    finished: bool = False
    """Whether all steps are done."""


@dataclass(slots=True)
class AnswerSlot:
    """The place of one answer: a distinct tuple of a batch, and the call."""

    open_batch: OpenBatch
    call: int
    tuple_index: int


@dataclass(slots=True)
class PendingPrompt:
    """A prompt without an answer yet.

    Example: the rows `red`, `red` and `blue` make two prompts. Another call that differs only in `on_error` has the
    same keys, so each of the two prompts has two slots: one per call.
    """

    key: bytes
    call: int
    """The call that rendered the prompt; the slots of other calls differ only in `on_error` or `on_truncated`."""
    fields: Fields
    step: int
    slots: list[AnswerSlot]
    first_use: bool = True
    """Whether the call needs this key for the first time."""
    reservation: Reservation | None = None
    dispatch: Dispatch | None = None
    max_tokens: int = 0
    """The token limit of the request."""
    first_answer: tuple[Said, Reading] | None = None
    """The unusable first answer, if the prompt is sent again."""
    repair: str | None = None
    """The text that is sent the second time."""

    def has_followers(self, steps: int) -> bool:
        """Return whether calls over the same values can follow the answer, in a pass with this many steps."""
        return any(slot.open_batch.rounds or len(slot.open_batch.begun) < steps for slot in self.slots)


def write_answer(prompt: PendingPrompt, reading: Reading, sites: Sequence[CallSite], said: Said | None = None) -> None:
    """Write an answer, or the value that `on_error` gives for a failure, into every slot of a prompt.

    Raises:
        EngineError: the reading is a failure, and a call of the slots has `on_error => 'fail'`.
    """
    cut = said is not None and said.cut is not None
    for slot in prompt.slots:
        call, open_batch = slot.call, slot.open_batch
        site, batch = sites[call], open_batch.batch
        # A cut text is a failure for one call and an answer for another, as `on_truncated` says.
        own = read_answer(site.ai, said) if cut and said is not None and call != prompt.call else reading
        batch.answers[call][slot.tuple_index] = sql_value(site.ai, own.value, own.failure)
        open_batch.pending -= 1
        if own.failure is not None:
            site.counters.add(failed_rows=batch.kept_rows_of(slot.tuple_index))
