"""Choose by itself how many rows share a request: by price, and only where sampled rows agree with single ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from flightllm.llm.cost import Work
from flightllm.llm.packs import codes_of
from flightllm.operators.cache import CacheKeys
from flightllm.operators.call_context import CallSite, ModelBinding
from flightllm.operators.pack_keys import PackKeys
from flightllm.operators.prompts import Fields
from flightllm.operators.row_packs import rows_prompt
from flightllm.operators.rows import given_fields
from flightllm.operators.sample_answers import Values, answers_of, predicted_rows
from flightllm.quality.agreement import LOOKS, Agreement, can_reach

_COUNTS: Final = (2, 4, 8, 16, 32)
"""The numbers of rows in a request that are compared by price."""
_PRICED: Final = 32
"""The sampled rows by which they are compared."""
_ANSWER_TOKENS: Final = 4
"""The tokens of an answer, for the comparison: an answer has about as many in a pack as in a request of its own."""
_ENTRY_TOKENS: Final = 8
"""The tokens around an answer in a pack."""
_WORTH: Final = 0.95
"""Packs must cost less than this share of single rows."""
_FEWEST_ROWS: Final = 4 * LOOKS[0]
"""With fewer distinct rows, the sampled rows cost more than packs of the others save."""


@dataclass(frozen=True, slots=True)
class PackChoice:
    """The choice for one call; `told` says what was chosen and why, for EXPLAIN."""

    site: CallSite
    """The site that asks about sampled rows, each by itself; see `sample_site`."""
    keys: CacheKeys
    """The keys of single prompts."""
    binding: ModelBinding
    sample: Callable[[], Sequence[Values]]
    """Returns the values of the call's fields in distinct rows that do not depend on the order of the rows."""
    target: float
    """The share of rows whose answer must be the same in both ways."""
    rows: int
    """The distinct rows that the call is about."""
    told: Callable[[str], None]

    def rows_together(self, cancelled: Callable[[], bool]) -> int:
        """Return how many rows can share a request: 1, unless packs are cheaper and the sampled rows agree.

        Rows of the sample are asked in packs and by themselves. The answers to single rows are kept for the rows
        themselves, and those of packs for later samples of the same rows.
        """
        reason = self._why_not()
        if reason:
            return self._alone(reason)
        sample = list(self.sample())
        if self.rows < _FEWEST_ROWS or len(sample) < LOOKS[-1]:
            return self._alone(f"auto needs {_FEWEST_ROWS:,} distinct rows, and there are {self.rows:,}")
        together = self._cheapest(sample[:_PRICED])
        if together < 2:
            return self._alone("several rows in a request are not cheaper")
        agreement = Agreement(0, 0)
        for most in LOOKS:
            agreement = self._compared(sample[agreement.compared : most], together, agreement, cancelled)
            held = agreement.least >= self.target
            if held or not can_reach(self.target, agreement, LOOKS[-1]):
                break
        if held and self.binding.asked_share is not None:
            self.told(f"up to {together:,} rows in a request, if sampled rows have the same answers in both ways")
            return together
        found = f"of {agreement.compared:,} sampled rows, {agreement.agreed:,} have the same answer in both ways"
        least = f"so at least {100 * agreement.least:.1f} % of all rows have"
        if not held:
            return self._alone(f"{found}, {least}, and flightllm.rows_agreement is {self.target:g}")
        self.told(f"up to {together:,} rows in a request: {found}, {least}")
        return together

    def _why_not(self) -> str:
        if self.site.ai.parameters.constraint is None:
            return "auto cannot compare free texts: write a number of rows"
        if not can_reach(self.target, Agreement(0, 0), LOOKS[-1]):
            return f"{LOOKS[-1]} sampled rows cannot show that {100 * self.target:g} % agree"
        return ""

    def _alone(self, reason: str) -> int:
        self.told(f"each row by itself: {reason}")
        return 1

    def _cheapest(self, sample: Sequence[Values]) -> int:
        """Return the number of rows in a request with the lowest price, or with the least time without prices."""
        named = self.site.named(self.site.order)
        rows = [fields for values in sample if (fields := given_fields(named, values)) is not None]
        costs = {count: self._cost(rows, count) for count in (1, *_COUNTS)}
        best = min(costs, key=lambda count: costs[count])
        return best if costs[best] < _WORTH * costs[1] else 1

    def _cost(self, rows: Sequence[Fields], count: int) -> float:
        count_tokens, prompts = self.binding.engine.count_tokens, rows_prompt(self.site)
        if count == 1:
            texts, start = [self.site.prompt(row) for row in rows], self.site.prompt([])
        else:
            codes = codes_of(count, ())
            packs = [rows[at : at + count] for at in range(0, len(rows), count)]
            texts, start = [prompts.render(codes[: len(pack)], pack) for pack in packs], prompts.render((), ())
        tokens = list(map(count_tokens, texts))
        answers = len(rows) * (_ANSWER_TOKENS + (_ENTRY_TOKENS if count > 1 else 1))
        work = Work(len(texts), sum(tokens), self._cached(count_tokens(start), len(texts)), answers)
        price = self.binding.costs.price(work)
        return self.binding.costs.seconds(work) if price is None else price

    def _cached(self, start: int, calls: int) -> int:
        """Return the prompt tokens that a prefix cache serves, where prompts share so many tokens at their start."""
        cache = self.binding.engine.prefix_cache
        if cache is None or not cache.earns or start < max(1, cache.floor_tokens):
            return 0
        return ceil(cache.share * (start - start % cache.block_tokens)) * (calls - 1)

    def _compared(
        self, sample: Sequence[Values], together: int, before: Agreement, cancelled: Callable[[], bool]
    ) -> Agreement:
        """Return the agreement once further rows are compared; rows without an answer do not count against it."""
        # a row that a pack leaves out is asked by itself, so packs come first: its answer is then known
        mark = f"{self.binding.user}, for a sample with {together} rows in a request"
        packed = replace(self.site, together=together, keys=PackKeys(self.keys, mark), packs_only=True, sampled=None)
        predicted = predicted_rows(self.binding, [packed, self.site], sample)
        [several] = answers_of([packed], sample, self.binding, cancelled)
        [alone] = answers_of([self.site], sample, self.binding, cancelled)
        compared = agreed = 0
        for guessed, one, other in zip(predicted, several, alone, strict=True):
            if other is not None and other["error"] is None:
                compared += 1
                agreed += guessed or (one is not None and one["error"] is None and one["value"] == other["value"])
        return Agreement(before.compared + compared, before.agreed + agreed)
