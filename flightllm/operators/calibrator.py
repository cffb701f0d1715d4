"""Ask the examples of a call, or some of its rows, and put the cut between its options where they say it is."""

from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import structlog

from flightllm.errors import AnswerError
from flightllm.functions.calibration import decided, probabilities_of, with_change, with_shift
from flightllm.functions.call import AICall, Labelled
from flightllm.functions.shift_fit import FEWEST_ROWS, Line, Shift, fitted_to_rows
from flightllm.operators.batches import PromptBatch
from flightllm.operators.call_context import CallContext, CallSite, ModelBinding, all_at_once
from flightllm.operators.call_executor import CallExecutor
from flightllm.operators.rows import Counters

_log = structlog.get_logger(__name__)


_FEW = 0.1
"""If a larger share of sampled rows has no answer, the query warns: the others could be of one kind."""

_Ask = TypeVar("_Ask")
_Values: TypeAlias = tuple[str | None, ...]
Sample: TypeAlias = Callable[[], Sequence[_Values]]
"""Returns some distinct values of a call's fields."""


class Calibrator:
    """The calibrations of one run of a query, one for each call. Thread-safe."""

    def __init__(self, warn: Callable[[str], None], *, fields_first: bool) -> None:
        """`warn` gets a text about each call that examples or rows without an answer, or too few rows, affect."""
        self._warn = warn
        self._fields_first = fields_first
        self._lock = Lock()
        self._known: dict[tuple[str, Hashable], Calibration] = {}

    def of(
        self,
        call: AICall,
        binding: ModelBinding,
        counters: Counters,
        sample: "Sample | None" = None,
        rows: Hashable = None,
    ) -> "Calibration | None":
        """Return the calibration of a call; None for a call that nothing calibrates.

        `sample` returns some of the call's rows, and `rows` says which rows these are; only a call that its rows
        calibrate needs both. Equal calls over other rows have other calibrations.
        """
        if call.uncalibrated:
            counters.note(0, 0, calibration=call.uncalibrated)
        if call.labelled is None and not call.by_rows:
            return None
        with self._lock:
            key = call.stub, rows
            if key not in self._known:
                self._known[key] = Calibration(
                    call, binding, counters, self._warn, sample, fields_first=self._fields_first
                )
            return self._known[key]


class Calibration:
    """The calibration of one call, whose examples or sampled rows are asked before its first row. Thread-safe."""

    def __init__(
        self,
        call: AICall,
        binding: ModelBinding,
        counters: Counters,
        warn: Callable[[str], None],
        sample: Sample | None,
        *,
        fields_first: bool,
    ) -> None:
        self._given = call
        self._sample = sample
        self._binding = binding
        self._counters = counters
        self._warn = warn
        self._fields_first = fields_first
        self._lock = Lock()
        self._calibrated: AICall | None = None
        self.sampled: set[bytes] | None = set() if call.by_rows else None
        """The keys of the prompts about sampled rows."""

    def ask(self, cancelled: Callable[[], bool]) -> AICall:
        """Ask the examples or the sampled rows, unless they were asked before, and return the calibrated call.

        They are asked as rows are: cached answers cost nothing, and budgets count the others. An example or a row that
        fails is asked a second time. If an example fails again, the call is not calibrated: without it the shift would
        be another, and so would be the answers of the next run. A row that fails again is left out of the sample.

        Raises:
            EngineError: the engine is gone, or an example failed and the call says `on_error => 'fail'`.
            BudgetExceededError: the budget is spent, and the session wants the query to fail then.
            CancelledError: the query was cancelled.
        """
        with self._lock:
            if self._calibrated is None:
                examples = self._given.labelled
                self._calibrated, how = (
                    self._by_rows(cancelled) if examples is None else self._by_examples(examples, cancelled)
                )
                self._counters.note(0, 0, calibration=how)
            return self._calibrated

    def _by_rows(self, cancelled: Callable[[], bool]) -> tuple[AICall, str]:
        """Calibrate by sampled rows, whose answers are kept for the rows themselves; return in words how."""
        call = self._given
        rows = [] if self._sample is None else self._sample()
        found = self._answers(rows, lambda some: self._asked_about(some, cancelled))
        known = [answer["value"] for answer in found if answer["value"]]
        errors = [answer["error"] for answer in found if answer["error"] is not None]
        missing = f"; {len(errors)} of {len(rows)} had no answer, because {errors[0]}" if errors else ""
        shift = fitted_to_rows(known)
        if shift is None:
            few = known or errors or not rows
            reason = "they are too few" if few else "the model's probabilities are unknown"
            instead = f"ask about {FEWEST_ROWS} or more" if few else "choose another model"
            text = f"by none of {len(rows)} rows: {reason}{missing}"
            self._warn(f"{call.text}: calibrated {text}; {instead}, or leave out calibrate => 'batch'")
            return call, text
        text = f"by a sample of {len(known)} rows{missing}"
        if len(errors) > _FEW * len(rows):
            self._warn(f"{call.text}: calibrated {text}")
        return with_shift(call, shift), text

    def _asked_about(self, rows: Sequence[_Values], cancelled: Callable[[], bool]) -> list[dict[str, Any] | None]:
        """Ask about rows in one pass; None for those that need no answer."""
        if not rows:
            return []
        columns = [pa.array([row[field] for row in rows], pa.string()) for field in range(len(self._given.fields))]
        batch = pa.RecordBatch.from_arrays(columns, [str(field) for field in range(len(columns))])
        prompts = PromptBatch(batch, np.arange(len(rows)), list(rows))
        done = self._answered([self._site(self._given, None)], prompts, cancelled)
        return list(done.answers[0])

    def _by_examples(self, examples: Labelled, cancelled: Callable[[], bool]) -> tuple[AICall, str]:
        """Calibrate by examples; return in words how.

        If a probability of an example is unknown, the call stays as it is. Only the answers to these examples decide.
        Guessed answers decide nothing: models with probabilities seldom need the examples in the prompts.
        """
        call, count = self._given, f"{len(examples.examples)} examples"
        guessed = self._binding.guessed()
        bare = call.worded(examples.without)
        asked = [[bare] * len(examples.examples), [call.worded(one.wording) for one in examples.examples]]
        known = []
        for calls in asked:
            asks = [(call, one.values) for call, one in zip(calls, examples.examples, strict=True)]
            answers = self._answers(asks, lambda some: self._asked(some, cancelled))
            if errors := [one["error"] for one in answers if one["error"]]:
                return call, self._failed(count, errors)
            known.append([one["value"] for one in answers])
            if not all(known[-1]):
                return call, f"by none of {count}: the model's probabilities are unknown"
        if self._binding.guessed() > guessed:
            return bare, f"by {count}, which will probably not be in the prompts"
        alone, aided = known
        decision = decided([one.wanted for one in examples.examples], alone, aided, examples.scale)
        where = "which stay in the prompts" if decision.in_prompts else "which are not in the prompts"
        chosen = call if decision.in_prompts else bare
        if decision.change is None:
            return chosen, f"by none of {count}, {where}: they would not improve the answers"
        return with_change(chosen, decision.change), f"by {count}, {where}: {_told(decision.change)}"

    def _failed(self, count: str, errors: Sequence[str]) -> str:
        """Warn of examples without an answer; return in words that they calibrate nothing."""
        call = self._given
        text = f"by none of {count}: {len(errors)} of them had no answer, because {errors[0]}"
        if call.on_error == "fail":
            raise AnswerError(f"{call.text}: calibrated {text} (calibrate => 'off' does not ask the examples)")
        _log.warning("examples without an answer", failed=len(errors), examples=count, function=call.function)
        self._warn(f"{call.text}: calibrated {text}")
        return text

    def _answers(
        self, asks: Sequence[_Ask], answered: Callable[[Sequence[_Ask]], list[dict[str, Any] | None]]
    ) -> list[dict[str, Any]]:
        """Return the probabilities of the options as `value`, or an `error`, for each row or example of `asks`.

        `answered` answers some of them, with None for a row that needs no answer. A failed one is asked a second time.
        The first is asked before the others if the model gave no probabilities lately: without them, the others need
        not be asked.
        """
        places = range(len(asks))
        answers: dict[int, dict[str, Any]] = {}

        def answer(some: Sequence[int]) -> None:
            found = answered([asks[place] for place in some])
            answers.update((place, one) for place, one in zip(some, found, strict=True) if one is not None)

        for some in (places,) if self._binding.has_probabilities() else (places[:1], places[1:]):
            answer(some)
            if any(not one["value"] and one["error"] is None for one in answers.values()):
                break
        else:
            if failed := [place for place, one in answers.items() if one["error"] is not None]:
                answer(failed)
        return list(answers.values())

    def _asked(
        self, asks: Sequence[tuple[AICall, _Values]], cancelled: Callable[[], bool]
    ) -> list[dict[str, Any] | None]:
        """Ask examples in one pass, each with its own call about its own values."""
        width, rows, values = len(self._given.fields), range(len(asks)), [one for _, one in asks]
        columns = [pa.array([one[field] for one in values], pa.string()) for field in range(width)]
        whens = [pa.array([row == place for row in rows]) for place in rows]
        names = [str(column) for column in range(width + len(rows))]
        batch = PromptBatch(pa.RecordBatch.from_arrays([*columns, *whens], names), np.arange(len(rows)), values)
        sites = [self._site(call, width + row) for row, (call, _) in enumerate(asks)]
        done = self._answered(sites, batch, cancelled)
        return [done.answers[row][row] or {"value": [], "error": None} for row in rows]

    def _site(self, call: AICall, when: int | None) -> CallSite:
        """Return the site of a call about an example or sampled rows, whose values are lists of probabilities.

        Its answers have the keys of the call's own answers, so a row that is an example costs nothing more.
        """
        fields = tuple(range(len(call.fields)))
        return CallSite(
            probabilities_of(call),
            tuple((field,) for field in fields),
            fields,
            when,
            None,
            self._binding.keys(call, fields_first=self._fields_first),
            self._counters,
            self._fields_first,
            self._binding.prompt_format,
            asks_example=True,
            sampled=self.sampled,
        )

    def _answered(self, sites: list[CallSite], batch: PromptBatch, cancelled: Callable[[], bool]) -> PromptBatch:
        binding = self._binding
        context = CallContext(binding, binding.in_flight.open(), sites, all_at_once(len(sites)), prompts_counted=False)
        [done] = CallExecutor(context).answer(iter([batch]), cancelled)
        return done


def _told(change: Shift | Line) -> str:
    """Return in words what a change does to answers."""
    if isinstance(change, Line):
        return "the ratings move"
    return "the cut moves" if any(change.offsets) else "only the certainty changes"
