"""Find the pairs by a way that asks few questions, and prove on sampled pairs that its verdicts keep the promise."""

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from flightllm.errors import InternalError
from flightllm.functions.join_wish import JoinWish
from flightllm.observe.promise_figures import promise_figures
from flightllm.operators.joins.asked import YES, PairOracle
from flightllm.operators.joins.candidates import Candidates
from flightllm.operators.joins.classes import ACCEPT, ASK, REJECT, Classes, Draws, Near, Verdicts, with_verdict
from flightllm.operators.joins.values import Ints
from flightllm.quality.targets import Targets
from flightllm.quality.two_regions import TwoRegions

_BLOCK = 1 << 16
_FORESEEN = 80
"""The most pairs of a region that a dry run draws: the shares of its predicted verdicts can be far from the truth."""


@dataclass(slots=True)
class Proof:
    """The verdicts of a way and what is certified about them. `prove` asks about sampled pairs."""

    way: str
    candidates: Candidates
    classes: Classes | Near
    oracle: PairOracle
    wish: JoinWish
    most: int
    """The questions that the way saves at most; a longer proof is stopped."""
    foreseen: bool = False
    """Whether this is a dry run, whose answers prove nothing."""
    attempt: int = 0
    """How many proofs about the same join failed before; each draws other pairs."""
    delta: float | None = None
    """The probability that this proof can be wrong; None for that of the promise."""
    reason: str = ""
    """Why the verdicts are not proved; empty if they are."""
    figures: dict[str, Any] = field(default_factory=dict)
    _accepted: Verdicts | None = None

    @property
    def targets(self) -> Targets:
        """Return what must be proved."""
        if self.wish.targets is None:
            raise InternalError("a way without targets proves nothing")
        return self.wish.targets

    def prove(self) -> bool:
        """Return whether the verdicts keep the promise, with the answers to sampled pairs in place of verdicts.

        Raises:
            EngineError: the engine is gone, or a prompt failed and the call says `on_error => 'fail'`.
            BudgetExceededError: the budget is spent, and the session wants the query to fail then.
            CancelledError: the query was cancelled.
        """
        if self._refusal:
            self.reason = self._refusal
            return False
        accepted, rejected, unsure = (with_verdict(self.candidates, self.classes, v) for v in (ACCEPT, REJECT, ASK))
        self._accepted = accepted
        sure, asked = self._ask_all(unsure)
        targets = self.targets if self.delta is None else replace(self.targets, confidence=1 - self.delta)
        if targets.precision is None:  # no pair is accepted unasked
            found, more = self._ask_all(accepted)
            regions = TwoRegions(0, rejected.rows, sure + found, targets, self.most)
            asked += more
        else:
            if not accepted.rows:  # all of the allowed error is for the rejected pairs
                targets = replace(targets, precision=None)
            regions = TwoRegions(accepted.rows, rejected.rows, sure, targets, self.most)
        seed = self._seed()
        draws = Draws(accepted, seed), Draws(rejected, seed + 1)
        while sum(wanted := regions.wave()):
            wave = wanted
            if self.foreseen:
                drawn = regions.accepted.drawn, regions.rejected.drawn
                wave = min(wave[0], _FORESEEN - drawn[0]), min(wave[1], _FORESEEN - drawn[1])
            yes, no = (self.oracle.ask(draw.next(size)) for draw, size in zip(draws, wave, strict=True))
            if self._refusal:
                self.reason = self._refusal
                return False
            wrong, missed = int((yes != YES).sum()), int((no == YES).sum())
            if self.foreseen:  # predicted answers prove nothing
                wrong = missed = 0
            regions.tell((len(yes), wrong), (len(no), missed))
            if wave != wanted:  # a real proof goes on with both regions, so other draws would not be those of it
                break
        self.reason = regions.reason
        if self.foreseen:
            return True
        self.figures = self._figures(regions, asked, accepted.rows, rejected.rows)
        return not self.reason

    def matching(self) -> Generator[Ints]:
        """Yield the pairs that match: those with a positive verdict, and corrected by all answers about pairs."""
        if self._accepted is None:
            raise InternalError("verdicts are used before they are proved")
        yes, (_, others) = self.oracle.matches(), self.oracle.answers()
        extra = yes[self.classes.of(yes) != ACCEPT]
        if len(extra):
            yield extra
        for block in self._accepted.blocks(_BLOCK):
            kept = block[~np.isin(block, others)]
            if len(kept):
                yield kept

    def _ask_all(self, verdicts: Verdicts) -> tuple[int, int]:
        """Ask about all pairs with a verdict; return the pairs of rows that match, and all pairs of rows."""
        yes = 0
        for block in verdicts.blocks(_BLOCK):
            yes += int(verdicts.rows_of(block[self.oracle.ask(block) == YES]).sum())
        return yes, verdicts.rows

    @property
    def _refusal(self) -> str:
        pairs = self.oracle.pairs
        return pairs.runtime.bindings[pairs.join.ai.binding].refusal

    def _seed(self) -> int:
        """Return the same number for the same question and targets, so that a rerun asks about the same pairs."""
        ai = self.oracle.pairs.join.ai
        asked = ai.function, ai.instruction, str(self.wish), str(self.targets), self.way, self.attempt
        return int.from_bytes(blake2b(repr(asked).encode("utf-8", "surrogatepass"), digest_size=7).digest())

    def _figures(self, regions: TwoRegions, asked: int, accepted: int, rejected: int) -> dict[str, Any]:
        known, held = regions.known(regions.accepted, regions.rejected), regions.held()
        missed, wrong = regions.rejected.unseen, regions.accepted.unseen
        return promise_figures(
            proxy=f"strategy '{self.way}'",
            targets=str(self.targets),
            rows=self.candidates.rows,
            prompts=self.candidates.distinct,
            known=0,
            asked=asked + regions.accepted.drawn + regions.rejected.drawn,
            asked_prompts=len(self.oracle.known),
            sampled_prompts=regions.accepted.drawn + regions.rejected.drawn,
            accepted=accepted,
            rejected=rejected,
            unanswered=0,
            errors=regions.accepted.errors + regions.rejected.errors,
            false_rejects=regions.rejected.errors,
            false_accepts=regions.accepted.errors,
            unseen_errors=missed + wrong,
            unseen_false_rejects=missed,
            unseen_false_accepts=wrong,
            recall=known / max(1, known + missed),
            precision=known / max(1, known + wrong),
            accuracy=None,
            delta=self.targets.delta,
            held=held,
            reason="Each sampled error is corrected." if held else self.reason,
        )
