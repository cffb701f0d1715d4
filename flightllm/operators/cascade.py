"""Answer the rows of a call with a promise: a proxy scores all of them, and the call's own model some of them."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from math import ceil
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flightllm.errors import InternalError
from flightllm.functions.call import AICall
from flightllm.observe.promise_figures import PromiseFigures, promise_figures
from flightllm.operators.batches import PromptBatch
from flightllm.operators.oracle import NO_ANSWER, UNASKED, Answers, NotKnownError, Oracle
from flightllm.operators.population import Units
from flightllm.operators.prompts import PromptLister
from flightllm.operators.proxy import NONE, Proxy, Scores
from flightllm.operators.rows import Counters, sql_value
from flightllm.quality.filter_cascade import FilterCascade
from flightllm.quality.forecast import Seen
from flightllm.quality.label_cascade import LabelCascade
from flightllm.quality.report import LabelReport, Report
from flightllm.quality.targets import Targets
from flightllm.quality.waves import FEWEST_UNITS

_Labels: TypeAlias = NDArray[np.int64]
_ASSUMED_SHARE: Final = 0.5
"""The predicted share of prompts that the model of a call with a promise gets, where no earlier run tells it."""
_MOST_PREDICTED: Final = 20_000
"""A prediction is made for this many units at most; the share of more would be about the same."""
_CERTIFIED: Final = frozenset(
    ("recall", "precision", "accuracy", "unseen_errors", "unseen_false_rejects", "unseen_false_accepts")
)
"""The figures that rest on a sample."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The label of each unit, and what is certified about them."""

    labels: _Labels
    promise: dict[str, Any] | None
    """The figures of the call site, see `CallRecord.promise`. A dry run has `predicted_share`, and `learned`."""
    notices: tuple[str, ...] = ()


class _Method(Protocol):
    """A cascade of the package `quality`, over labels."""

    def next_wave(self) -> Units:
        """Return the units to ask now; an empty array when the asking has ended."""

    def tell(self, units: Units, labels: _Labels) -> None:
        """Take the labels of the last wave."""

    def verdicts(self) -> _Labels:
        """Return the label of each unit."""

    def report(self) -> Report | LabelReport:
        """Return the counts and the certified bounds."""


def decide(call: AICall, oracle: Answers, proxy: Proxy, note: Callable[[AICall, Seen], None] | None = None) -> Decision:
    """Ask the proxy about all units, and the oracle about waves of units until the promise holds.

    `note` gets what the run told about the proxy. A rerun tells nothing new.

    Raises:
        EngineError: an engine is gone, or a prompt failed and the call says `on_error => 'fail'`.
        BudgetExceededError: the budget is spent, and the session wants the query to fail then.
        CancelledError: the query was cancelled.
    """
    found = _replayed(call, oracle, proxy) or _decided(call, oracle, proxy, note)
    method, report = found, found.report()
    # An answer that is known besides can only be nearer to the promise than the proxy's: it makes both rates larger.
    told = oracle.told()
    labels = np.where(told == UNASKED, method.verdicts(), told)
    figures = _figures(call, proxy, report, labels, oracle)
    if oracle.refused:
        return _cut_off(call, oracle, figures)
    return Decision(labels, figures, _notices(call, proxy, report))


def _cut_off(call: AICall, oracle: Answers, figures: Mapping[str, Any]) -> Decision:
    """Certify nothing when the budget has cut off the sample; rows without an answer are NULL, as without a proxy."""
    labels = np.where(oracle.labels == UNASKED, NO_ANSWER, oracle.labels)
    for unit in np.flatnonzero(oracle.labels == UNASKED).tolist():
        oracle.errors[unit] = oracle.refused
    unanswered = int(oracle.population.weights[labels < 0].sum())
    nothing = dict.fromkeys(figures.keys() & _CERTIFIED)
    lost = {"held": False, "reason": oracle.refused, "unanswered": unanswered}
    notice = f"{call.text}: the promise {call.promise} is not held, and {unanswered:,} rows are NULL: {oracle.refused}"
    return Decision(labels, {**figures, **nothing, **lost}, (notice,))


def predict(
    call: AICall,
    oracle: Answers,
    proxy: Proxy | None,
    share: Callable[[AICall, int], float | None],
    scored: Callable[[Units], object] | None = None,
) -> Decision:
    """Decide in a dry run: ask the oracle about a share of the units, and the proxy about all of them.

    `share` predicts this share of a number of units; None means that no earlier run tells it. The other units have
    answers as often as the asked ones do. A rerun of a query is predicted as it went before. `scored` makes the
    predicted calls of the proxy about units, where not all of them need a score.
    """
    found = None if proxy is None else _replayed(call, oracle, proxy)
    if found is not None:
        told = oracle.told()
        return Decision(np.where(told == UNASKED, found.verdicts(), told), None)
    unknown = np.flatnonzero(oracle.labels == UNASKED)
    sampled = len(unknown) >= FEWEST_UNITS
    if sampled and proxy is not None:
        (scored or proxy.scores)(unknown)
    found_share = share(call, len(unknown)) if sampled else 1.0
    used = _ASSUMED_SHARE if found_share is None else found_share
    # The units are in the order of a hash, so the first ones are a sample.
    asked = oracle.ask(unknown[: ceil(used * len(unknown))])
    if len(unknown):
        oracle.labels[unknown] = np.resize(asked, len(unknown))
    return Decision(oracle.labels, {"predicted_share": used, "learned": found_share is not None})


def _replayed(call: AICall, oracle: Answers, proxy: Proxy) -> _Method | None:
    """Decide as an earlier run of the same query did, if the cache has its answers; otherwise return None.

    The questions of that run are a sample of all rows. If its answers counted as known before, the rest of the rows
    would need a sample of their own.
    """
    if not oracle.knows_some or not _needs_proxy(call, len(oracle.population)) or not proxy.costs_nothing():
        return None
    with suppress(NotKnownError), oracle.replayed():
        return _decided(call, oracle, proxy)
    return None


def _needs_proxy(call: AICall, units: int) -> bool:
    """Return whether a proxy is of use for this number of units.

    Few units are all asked, so a proxy would only cost. A budget below their number leaves some to the proxy.
    """
    budget = targets_of(call).label_budget
    return units >= FEWEST_UNITS or (budget is not None and budget < units)


def _decided(
    call: AICall, oracle: Answers, proxy: Proxy, note: Callable[[AICall, Seen], None] | None = None
) -> _Method:
    unknown = np.flatnonzero(oracle.labels == UNASKED)
    scores = Scores.unknown(len(oracle.population))
    if _needs_proxy(call, len(unknown)):
        scored = proxy.scores(unknown)
        scores.labels[unknown], scores.confidence[unknown] = scored.labels, scored.confidence
    oracle.taught = unknown[oracle.labels[unknown] != UNASKED]
    method = _method(call, oracle, scores)
    while len(units := method.next_wave()):
        labels = oracle.ask(units)
        if oracle.refused:
            return method
        method.tell(units, labels)
    if note is not None and len(unknown) >= FEWEST_UNITS:
        note(call, _seen(call, oracle, scores, unknown))
    return method


def _seen(call: AICall, oracle: Answers, scores: Scores, units: Units) -> Seen:
    """Return what a run over `units` told about the proxy."""
    labels, confidence, answers = scores.labels[units], scores.confidence[units], oracle.labels[units]
    known, taught = answers >= 0, len(oracle.taught)
    if pa.types.is_boolean(call.output):
        yes = oracle.values.index(True)
        hits = np.where(known, answers == yes, -1).astype(np.int8)
        return Seen(np.where(labels < 0, np.nan, scores.probability(yes)[units]), hits, np.empty(0), taught)
    hits = np.where(known, answers == labels, -1).astype(np.int8)
    shares = np.bincount(labels[labels >= 0], minlength=len(oracle.values)) + 1e-9
    return Seen(np.where(labels < 0, np.nan, confidence), hits, shares / shares.sum(), taught)


def question_of(call: AICall) -> Hashable:
    """Return a key of the question of a call with a promise and its proxies, whatever the targets are."""
    proxies = () if call.promise is None else call.promise.proxies
    return call.function, call.instruction, call.fields, call.parameters, call.reading, proxies


def answer_rows(
    call: AICall,
    oracle: Oracle,
    decision: Decision,
    lister: PromptLister,
    counters: Counters,
    rows: Iterator[PromptBatch],
) -> Iterator[PromptBatch]:
    """Yield rows with the decided answers.

    Raises:
        AnswerError: an answer failed and the call says `on_error => 'fail'`.
        CancelledError: the query was cancelled.
    """
    population, values = oracle.population, oracle.values
    for batch in rows:
        listed = lister.listed(batch, 0)
        units = population.units([key for _, _, key in listed]) if listed else np.empty(0, np.int64)
        answers: list[Any] = [None] * len(batch.tuples)
        failed = 0
        labels = decision.labels[units].tolist()
        for (place, _, _), unit, label in zip(listed, units.tolist(), labels, strict=True):
            failure = oracle.errors.get(unit) if label < 0 else None
            answers[place] = sql_value(call, values[label] if label >= 0 else None, failure)
            if failure is not None:
                failed += batch.kept_rows_of(place)
        batch.answers[0] = answers
        counters.add(rows=batch.kept, failed_rows=failed)
        yield batch


def seed_of(call: AICall, known: int = 0) -> int:
    """Return a number that is the same for the same question and targets, so that a rerun asks the same rows.

    `known` answers of earlier runs come from samples with other seeds, so the rest gets a seed of its own.
    """
    asked = call.function, call.instruction, str(call.promise), known
    return int.from_bytes(blake2b(repr(asked).encode("utf-8", "surrogatepass"), digest_size=8).digest())


def expected_share(call: AICall, count: int, labels: _Labels, confidence: NDArray[np.float64]) -> float:
    """Predict the share of units that is asked, given their likely labels of `count` and true probabilities."""
    some = np.linspace(0, len(labels) - 1, min(len(labels), _MOST_PREDICTED)).astype(np.int64)
    scores, targets = Scores(labels[some], confidence[some]), targets_of(call)
    weights, known = np.ones(len(some), np.int64), np.full(len(some), -1)
    if pa.types.is_boolean(call.output):
        return FilterCascade(scores.probability(1), weights, known.astype(np.int8), targets, 0).predicted()
    return LabelCascade(scores.labels, scores.confidence, weights, known, count, targets, 0).predicted()


def targets_of(call: AICall, spent: int = 0) -> Targets:
    """Return the targets of a call whose label budget has paid for `spent` prompts."""
    promise = call.promise
    if promise is None:
        raise InternalError(f"{call.text} has no promise")
    budget = None if promise.label_budget is None else max(promise.label_budget - spent, 0)
    return Targets(promise.recall, promise.precision, promise.accuracy, promise.confidence, budget)


def _method(call: AICall, oracle: Answers, scores: Scores) -> _Method:
    targets = targets_of(call, len(oracle.taught))
    known = np.maximum(oracle.labels, -1)
    weights, seed = oracle.population.weights, seed_of(call, int((known >= 0).sum()))
    if pa.types.is_boolean(call.output):
        yes = oracle.values.index(True)
        return _Booleans(FilterCascade(scores.probability(yes), weights, _as_bits(known, yes), targets, seed), yes)
    return LabelCascade(scores.labels, scores.confidence, weights, known, len(oracle.values), targets, seed)


@dataclass(frozen=True, slots=True)
class _Booleans:
    """A cascade of yes and no, over the labels of a call with these two values."""

    cascade: FilterCascade
    yes: int

    def next_wave(self) -> Units:
        return self.cascade.next_wave()

    def tell(self, units: Units, labels: _Labels) -> None:
        self.cascade.tell(units, _as_bits(labels, self.yes))

    def verdicts(self) -> _Labels:
        bits = self.cascade.verdicts()
        return np.where(bits < 0, bits, np.where(bits == 1, self.yes, 1 - self.yes)).astype(np.int64)

    def report(self) -> Report:
        return self.cascade.report()


def _as_bits(labels: _Labels, yes: int) -> NDArray[np.int8]:
    """Return 1 for the label `yes`, 0 for the other label, and -1 where there is no label."""
    return np.where(labels < 0, -1, labels == yes).astype(np.int8)


def _figures(
    call: AICall, proxy: Proxy, report: Report | LabelReport, labels: _Labels, oracle: Answers
) -> dict[str, Any]:
    """Return the figures of a report that both kinds have, and those of its own kind."""
    weights = oracle.population.weights
    taught = int(weights[oracle.taught].sum())
    found = promise_figures(
        proxy=proxy.name,
        targets=str(call.promise),
        rows=report.rows,
        prompts=report.units,
        known=report.known_rows - taught,
        asked=report.asked_rows + taught,
        asked_prompts=report.asked_units + len(oracle.taught),
        taught_prompts=len(oracle.taught),
        sampled_prompts=report.sampled_units,
        unanswered=int(weights[labels < 0].sum()),
        delta=report.delta,
        accuracy=report.accuracy,
        held=report.held,
        useless=report.useless,
        reason=report.reason,
    )
    own = _figures_of_labels(report) if isinstance(report, LabelReport) else _figures_of_rows(report, labels, oracle)
    return {**found, **own}


def _figures_of_labels(report: LabelReport) -> PromiseFigures:
    return {
        "errors": report.found_errors,
        "unseen_errors": report.unseen_errors,
        "recall": min(report.recalls, default=None),
        "precision": min(report.precisions, default=None),
    }


def _figures_of_rows(report: Report, labels: _Labels, oracle: Answers) -> PromiseFigures:
    weights, yes = oracle.population.weights, oracle.values.index(True)
    return {
        "accepted": int(weights[labels == yes].sum()),
        "rejected": int(weights[labels == 1 - yes].sum()),
        "false_rejects": report.found_false_rejects,
        "false_accepts": report.found_false_accepts,
        "errors": report.found_false_rejects + report.found_false_accepts,
        "unseen_false_rejects": report.unseen_false_rejects,
        "unseen_false_accepts": report.unseen_false_accepts,
        "unseen_errors": report.unseen_false_rejects + report.unseen_false_accepts,
        "recall": report.recall,
        "precision": report.precision,
    }


def _notices(call: AICall, proxy: Proxy, report: Report | LabelReport) -> tuple[str, ...]:
    """Return what the user must know: the promise is not held, or the proxy saved nothing."""
    if not report.held:
        certain = [("recall", getattr(report, "recall", None)), ("precision", getattr(report, "precision", None))]
        named = [
            f"{name} {value:.3g}" for name, value in [*certain, ("accuracy", report.accuracy)] if value is not None
        ]
        why = " ".join(one for one in (report.reason, proxy.reason) if one)
        said = f"the promise {call.promise} is not held: {why} Certain are {', '.join(named)}"
        return (f"{call.text}: {said}; raise label_budget, or leave it out",)
    if report.useless and report.asked_units >= FEWEST_UNITS:
        which = "no proxy saves anything" if proxy.name == NONE else f"the proxy {proxy.name} saved nothing"
        reason = proxy.reason or report.reason
        said = f"{which}, and the model was asked about all rows: {reason}"
        return (f"{call.text}: {said} Name another proxy, or leave out the targets",)
    return ()
