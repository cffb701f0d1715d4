"""The steps of a pass for one batch: which comes next, and which rows a step drops."""

from collections.abc import Sequence

from flightllm.operators.call_context import CallContext
from flightllm.operators.pending_prompt import OpenBatch
from flightllm.operators.prompt_lister import PromptLister
from flightllm.operators.ranking import Ranking
from flightllm.plan.stages import BoundStep


class StepOrder:
    """Begin and end the steps of a batch. One thread uses it.

    Example: `WHERE ai_filter('a', t) AND ai_filter('b', t)` has two steps, each of one call and a condition. A batch
    begins the step that ranks first, drops the rows for which its condition is false, and then begins the other.
    """

    def __init__(
        self, steps: Sequence[BoundStep], ranking: Ranking, context: CallContext, lister: PromptLister
    ) -> None:
        self._steps = steps
        self._ranking = ranking
        self._conditions = context.conditions
        self._cache = context.binding.cache
        self._dedup = context.dedup
        self._lister = lister

    def begin_next(self, open_batch: OpenBatch) -> bool:
        """End the batch's step and begin the next one; return whether there is a next step."""
        if open_batch.step is not None:
            self._drop_rows(open_batch, open_batch.step)
        step = open_batch.step = self._next(open_batch)
        if step is None:
            return False
        open_batch.begun.add(step)
        open_batch.rounds = list(self._steps[step].rounds)
        return True

    def is_first_round(self, open_batch: OpenBatch, calls: Sequence[int]) -> bool:
        """Return whether `calls` are all calls of the batch's first step."""
        of_step = sum(map(len, self._steps[open_batch.step or 0].rounds))
        return len(open_batch.begun) <= 1 and len(calls) >= of_step

    def _next(self, open_batch: OpenBatch) -> int | None:
        """Return the best step that can begin. A filter whose answers are all known costs nothing, so it goes first."""
        steps = self._ranking.next(open_batch.begun)
        filters = [step for step in steps if self._steps[step].condition is not None]
        if len(filters) > 1 and self._dedup:
            for step in filters:
                calls = [call for round_ in self._steps[step].rounds for call in round_]
                keys = [key for call in calls for key in self._lister.keys(open_batch.batch, call)]
                if len(self._cache.peek(keys)) == len(set(keys)):
                    return step
        return steps[0] if steps else None

    def _drop_rows(self, open_batch: OpenBatch, step: int) -> None:
        """Drop the rows for which the condition of a step is not true."""
        condition, batch = self._steps[step].condition, open_batch.batch
        if condition is None or self._conditions is None:
            return
        before = batch.kept
        batch.keep(self._conditions.true(condition, batch))
        self._ranking.filtered(step, before, batch.kept)
