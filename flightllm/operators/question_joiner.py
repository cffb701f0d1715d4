"""Join the ready prompts about one row, so that they share a request, with questions that later steps would ask."""

from collections.abc import Hashable, Iterator, Sequence
from itertools import count

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
        found = list(prompts)
        for plan in self._plans:
            found = self._joined(plan, open_batch, found)
        return found

    def _joined(self, plan: QuestionPlan, open_batch: OpenBatch, prompts: list[PendingPrompt]) -> list[PendingPrompt]:
        groups: dict[Hashable, list[PendingPrompt]] = {}
        alone = count()
        for prompt in prompts:
            own = prompt.call in plan.calls and prompt.slots
            key: Hashable = (prompt.slots[0].tuple_index, tuple(prompt.fields)) if own else next(alone)
            groups.setdefault(key, []).append(prompt)
        later: Later = ()
        if self._looks_ahead:
            later = later_steps(self._ranking, plan.calls, open_batch.step or 0, open_batch.begun, open_batch.rounds)
        ahead = self._ahead(open_batch, later) if any(group[0].call in plan.calls for group in groups.values()) else {}
        return [one for group in groups.values() for one in self._in_groups(plan, group, later, ahead)]

    def _in_groups(
        self,
        plan: QuestionPlan,
        group: list[PendingPrompt],
        later: Later,
        ahead: dict[tuple[int, int], tuple[Fields, bytes]],
    ) -> Iterator[PendingPrompt]:
        """Yield the prompts of one row: one for each request, with the others joined to it."""
        if group[0].call not in plan.calls:
            yield from group
            return
        now = tuple(prompt.call for prompt in group)
        decision = plan.decide(now, later)
        if not decision.joined:
            yield from group
            return
        riders = [
            PendingPrompt(known[1], call, known[0], group[0].step, [], first_use=False)
            for _, calls in later[: decision.steps]
            for call in calls
            if (known := ahead.get((group[0].slots[0].tuple_index, call))) is not None and known[0] == group[0].fields
        ]
        asked = {prompt.call: prompt for prompt in (*group, *self._registry.ride(riders))}
        for calls in plan.groups(tuple(asked)):
            if not self._shares(calls, group[0].fields):
                yield from (asked[call] for call in calls if asked[call].slots)
                for call in calls:
                    if not asked[call].slots:
                        self._registry.drop(asked[call])
                continue
            first, *others = (asked[call] for call in calls)
            first.joined = tuple(others)
            yield first

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
