"""Decide which pairs of texts are the same: by similarity where that is certified, elsewhere by the model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from flightllm.functions.call import AICall
from flightllm.operators.sets.asker import Asker
from flightllm.operators.sets.candidates import Pairs
from flightllm.quality.filter_cascade import FilterCascade
from flightllm.quality.targets import Targets

Ints = NDArray[np.int64]

_LIKELY: Final = 0.75
"""In a prediction, pairs from this similarity on count as the same."""
_SEED: Final = 7


@dataclass(frozen=True, slots=True)
class PairMethod:
    """The questions about a pair, and the targets; see `docs/how-to/group-by-meaning.md`."""

    questions: Mapping[str, AICall]
    """`pair` is the question, and `again` asks it in other words."""
    precision: float
    recall: float
    confidence: float


@dataclass(slots=True)
class PairVerdicts:
    """The verdicts about pairs, by place."""

    pairs: Pairs
    same: NDArray[np.bool_]
    asked: NDArray[np.bool_]
    errors: dict[int, str] = field(default_factory=dict)
    """Pairs without an answer, and why."""
    calls: int = 0
    told: str = ""
    """The figures so far, for EXPLAIN."""


def decided(pairs: Pairs, texts: Sequence[str], method: PairMethod, asker: Asker) -> PairVerdicts:
    """Ask waves of pairs until the targets are certified.

    Half of the allowed false pairs are left for pairs that nobody decides, because they follow from two others.

    Raises:
        FlightLLMError: as `Asker.ask`.
    """
    verdicts = PairVerdicts(pairs, np.zeros(len(pairs), bool), np.zeros(len(pairs), bool))
    precision, recall = method.precision, method.recall
    if precision == recall == 1:
        ask_pairs(verdicts, np.arange(len(pairs)), texts, method, asker)
        verdicts.told = f"{len(pairs):,} asked"
        return verdicts
    targets = Targets(
        recall=recall if recall < 1 else None,
        precision=1 - (1 - precision) / 2 if precision < 1 else None,
        confidence=method.confidence,
    )
    unknown = np.full(len(pairs), -1, np.int8)
    cascade = FilterCascade(pairs.scores, np.ones(len(pairs), np.int64), unknown, targets, _SEED)
    while len(units := cascade.next_wave()):
        ask_pairs(verdicts, units, texts, method, asker)
        answers = np.where(verdicts.same[units], 1, 0)
        answers[[int(unit) in verdicts.errors for unit in units]] = -1
        cascade.tell(units, answers.astype(np.int8))
    verdicts.same = cascade.verdicts() == 1
    report = cascade.report()
    accepted = int((verdicts.same & ~verdicts.asked).sum())
    rejected = len(pairs) - report.asked_units - accepted
    certain = [f"precision {report.precision:.4f}" if precision < 1 and report.precision is not None else ""]
    certain += [f"recall {report.recall:.4f}" if recall < 1 and report.recall is not None else ""]
    shown = ", ".join(part for part in certain if part)
    verdicts.told = (
        f"{report.asked_units:,} asked, {accepted:,} accepted and {rejected:,} rejected by similarity;"
        f" of these pairs certain at {method.confidence:g}: at least {shown}"
    )
    return verdicts


def ask_pairs(verdicts: PairVerdicts, units: Ints, texts: Sequence[str], method: PairMethod, asker: Asker) -> None:
    """Ask about some pairs, and put the answers into `verdicts`."""
    found = said(verdicts.pairs, units, texts, method, asker, question="pair", turned=False)
    for unit, answer in zip(units.tolist(), found, strict=True):
        verdicts.asked[unit] = True
        if isinstance(answer, str):
            verdicts.errors[unit] = answer
        else:
            verdicts.same[unit] = answer
    verdicts.calls += len(units)


def said(
    pairs: Pairs, units: Ints, texts: Sequence[str], method: PairMethod, asker: Asker, *, question: str, turned: bool
) -> list[bool | str]:
    """Return for each pair whether the model calls it the same, or why there is no answer.

    `turned` names the second text first. In a prediction, the answers are not those of the predicting engine, whose
    groups would be random, but follow from the similarity.
    """
    prompts = []
    for unit in units.tolist():
        one, other = sorted((texts[pairs.left[unit]], texts[pairs.right[unit]]))
        prompts.append((other, one) if turned else (one, other))
    replies = asker.ask(method.questions[question], prompts)
    if asker.is_dry:
        return [bool(score >= _LIKELY) for score in pairs.scores[units]]
    return [reply.value if reply.value is not None else reply.error or "no answer" for reply in replies]
