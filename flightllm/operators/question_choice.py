"""Let questions share requests by itself only where sampled rows have the same answers as in single requests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from flightllm.operators.call_context import CallSite, ModelBinding
from flightllm.operators.pack_keys import PackKeys
from flightllm.operators.question_plan import Later, QuestionPlan
from flightllm.operators.sample_answers import Values, answers_of, predicted_rows, sample_site
from flightllm.quality.agreement import LOOKS, Agreement, can_reach

_FEWEST_ROWS: Final = 4 * LOOKS[0]
"""With fewer distinct rows, the sampled rows cost more than shared requests save."""


@dataclass(frozen=True, slots=True)
class QuestionChoice:
    """The choice for the calls of a plan. A row agrees if all of its answers are equal in both ways."""

    plan: QuestionPlan
    sites: Sequence[CallSite]
    """The sites of the plan's calls, each with `sampled`."""
    binding: ModelBinding
    sample: Sequence[Values]
    """The values of the calls' fields in distinct rows that do not depend on the order of the rows."""
    target: float
    limited: bool
    """Whether a LIMIT can end the query before most rows are asked."""

    def agrees(self, now: tuple[int, ...], later: Later, cancelled: Callable[[], bool]) -> bool:
        """Return whether the questions can share requests: that is cheaper, and the sampled rows agree.

        `now` and `later` are the calls of the first step and of the others. The single answers about sampled rows are
        kept for the rows themselves.
        """
        reason = self._why_not()
        if reason:
            self.plan.told(f"one after another: {reason}")
            return False
        if not self.plan.decide(now, later).joined:
            return False
        agreement = Agreement(0, 0)
        for most in LOOKS:
            agreement = self._compared(self.sample[agreement.compared : most], agreement, cancelled)
            held = agreement.least >= self.target
            if held or not can_reach(self.target, agreement, LOOKS[-1]):
                break
        if held and self.binding.asked_share is not None:
            self.plan.prove(", if sampled rows have the same answers in both ways")
            return True
        found = f"of {agreement.compared:,} sampled rows, {agreement.agreed:,} have the same answers in both ways"
        least = f"so at least {100 * agreement.least:.1f} % of all rows have"
        if not held:
            self.plan.told(f"one after another: {found}, {least}, and flightllm.rows_agreement is {self.target:g}")
            return False
        self.plan.prove(f"; {found}, {least}")
        return True

    def _why_not(self) -> str:
        if self.limited:
            return "auto samples no rows under a LIMIT"
        if not can_reach(self.target, Agreement(0, 0), LOOKS[-1]):
            return f"{LOOKS[-1]} sampled rows cannot show that {100 * self.target:g} % agree"
        if self.plan.rows < _FEWEST_ROWS or len(self.sample) < LOOKS[-1]:
            return f"auto needs {_FEWEST_ROWS:,} distinct rows, and there are {self.plan.rows:,}"
        return ""

    def _compared(self, sample: Sequence[Values], before: Agreement, cancelled: Callable[[], bool]) -> Agreement:
        """Return the agreement once further rows are compared; questions without an answer do not count against it."""
        calls = len(self.sites)
        mark = f"{self.binding.user}, for a sample with {calls} questions in a request"
        alone = [without_joins(sample_site(site)) for site in self.sites]
        packed = [
            replace(site, joins=True, keys=PackKeys(keys, mark, questions=True), packs_only=True, sampled=None)
            for site in alone
            if not isinstance(keys := site.keys, PackKeys)
        ]
        plan = replace(self.plan, calls=frozenset(range(calls)), forced=True)
        predicted = predicted_rows(self.binding, [*packed, *alone], sample)
        # a question that the model leaves out is asked by itself, so shared requests come first
        several = answers_of(packed, sample, self.binding, cancelled, [plan])
        single = answers_of(alone, sample, self.binding, cancelled)
        compared = agreed = 0
        for place, guessed in enumerate(predicted):
            pairs = [(one[place], other[place]) for one, other in zip(several, single, strict=True)]
            known = [(one, other) for one, other in pairs if other is not None and other["error"] is None]
            if known:
                compared += 1
                agreed += guessed or all(
                    one is not None and one["error"] is None and one["value"] == other["value"] for one, other in known
                )
        return Agreement(before.compared + compared, before.agreed + agreed)


def without_joins(site: CallSite) -> CallSite:
    """Return a site whose questions share no requests, so that it reads and keeps only single answers."""
    keys = site.keys.alone if isinstance(site.keys, PackKeys) else site.keys
    return replace(site, keys=keys, joins=False)
