"""Join the ready prompts about one row, so that they share a request, with questions that later steps would ask."""

from collections.abc import Hashable, Sequence

from flightllm.operators.call_context import CallContext
from flightllm.operators.prompts import Fields, OpenBatch, PendingPrompt, PromptLister, PromptRegistry
from flightllm.operators.question_packs import QuestionPacker
from flightllm.operators.question_plan import Later, QuestionPlan, later_steps


class QuestionJoiner:
    """Join prompts as the plans of a pass say. One thread uses it.

    A prompt of a later step is asked before anybody knows whether its row reaches the step. Until then it has no slot,
    and its answer waits in the answer cache.
    """

    def __init__(
        self,
        context: CallContext,
        plans: Sequence[QuestionPlan],
        lister: PromptLister,
        registry: PromptRegistry,
        packer: QuestionPacker,
    ) -> None:
        self._plans = plans
        self._ranking = context.ranking
        self._looks_ahead = context.dedup and not context.binding.collects
        """Without shared prompts, no later step would find the answer to a prompt that was asked ahead."""
        self._lister = lister
        self._registry = registry
        self._packer = packer

    def joined(self, open_batch: OpenBatch, prompts: Sequence[PendingPrompt]) -> list[PendingPrompt]:
        """Return prompts of one batch in the order in which they are sent; some of them have others joined."""
        for plan in self._plans:
            self._join(plan, open_batch, [prompt for prompt in prompts if prompt.call in plan.calls])
        riding = {id(one) for prompt in prompts for one in prompt.joined}
        return [prompt for prompt in prompts if id(prompt) not in riding]

    def _join(self, plan: QuestionPlan, open_batch: OpenBatch, prompts: list[PendingPrompt]) -> None:
        if not prompts:
            return
        groups: dict[Hashable, list[PendingPrompt]] = {}
        for prompt in prompts:
            groups.setdefault((prompt.slots[0].tuple_index, tuple(prompt.fields)), []).append(prompt)
        later: Later = ()
        if self._looks_ahead:
            later = later_steps(self._ranking, plan.calls, open_batch.step or 0, open_batch.begun, open_batch.rounds)
        ahead = self._ahead(open_batch, later)
        for group in groups.values():
            self._join_group(plan, group, later, ahead)

    def _join_group(
        self,
        plan: QuestionPlan,
        group: list[PendingPrompt],
        later: Later,
        ahead: dict[tuple[int, int], tuple[Fields, bytes]],
    ) -> None:
        """Join the prompts of one row, and those that its later steps would send."""
        decision = plan.decide(tuple(prompt.call for prompt in group), later)
        if not decision.joined:
            return
        riders = [
            PendingPrompt(known[1], call, known[0], group[0].step, [], first_use=False)
            for _, calls in later[: decision.steps]
            for call in calls
            if (known := ahead.get((group[0].slots[0].tuple_index, call))) is not None and known[0] == group[0].fields
        ]
        asked = {prompt.call: prompt for prompt in (*group, *self._registry.ride(riders))}
        for calls in plan.groups(tuple(asked)):
            first, *others = (asked[call] for call in calls)
            if first.slots and self._shares(calls, group[0].fields):
                first.joined = tuple(others)
                continue
            for one in (first, *others):
                if not one.slots:
                    self._registry.drop(one)

    def _shares(self, calls: tuple[int, ...], fields: Fields) -> bool:
        """Return whether a request can have these questions about the fields."""
        if len(calls) < 2 or self._packer.gave_up(frozenset(calls)):
            return False
        return self._packer.fits([(call, fields) for call in calls])

    def _ahead(self, open_batch: OpenBatch, later: Later) -> dict[tuple[int, int], tuple[Fields, bytes]]:
        """Return the fields and the key of each prompt of later steps, by its tuple and call."""
        return {
            (at, call): (fields, key)
            for _, calls in later
            for call in calls
            for at, fields, key in self._lister.listed(open_batch.batch, call, guarded=False)
        }
