"""Ask the examples of a call, or some of its rows, and put the cut between its options where they say it is."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import structlog

from flightllm.errors import AnswerError
from flightllm.functions.calibration import fitted_offsets, probabilities_of, row_offsets, with_offsets
from flightllm.functions.call import AICall, LabelledExample
from flightllm.operators.batches import PromptBatch
from flightllm.operators.call_context import CallContext, CallSite, ModelBinding, all_at_once
from flightllm.operators.call_executor import CallExecutor
from flightllm.operators.rows import Counters

_log = structlog.get_logger(__name__)


Sample: TypeAlias = Callable[[], Sequence[tuple[str | None, ...]]]
"""Returns some distinct values of a call's fields."""


class Calibrator:
    """The calibrations of one run of a query, one for each call. Thread-safe."""

    def __init__(self, warn: Callable[[str], None], *, fields_first: bool) -> None:
        """`warn` gets a text about each call that is not calibrated because of an example without an answer."""
        self._warn = warn
        self._fields_first = fields_first
        self._lock = Lock()
        self._known: dict[str, Calibration] = {}

    def of(
        self, call: AICall, binding: ModelBinding, counters: Counters, sample: "Sample | None" = None
    ) -> "Calibration | None":
        """Return the calibration of a call; None for a call that nothing calibrates.

        `sample` returns some of the call's rows; only a call that its rows calibrate needs it.
        """
        if call.uncalibrated:
            counters.note(0, 0, calibration=call.uncalibrated)
        if not (call.labelled or call.by_rows):
            return None
        with self._lock:
            if call.stub not in self._known:
                self._known[call.stub] = Calibration(
                    call, binding, counters, self._warn, sample, fields_first=self._fields_first
                )
            return self._known[call.stub]


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
        self._parse = call.parse
        self._binding = binding
        self._counters = counters
        self._warn = warn
        self._fields_first = fields_first
        self._lock = Lock()
        self._done = False
        self.call = replace(call, parse=self._read)
        """The call. After `ask` it chooses by the offsets that the examples give, where these help."""

    def ask(self, cancelled: Callable[[], bool]) -> None:
        """Ask the examples or the sampled rows, unless they were asked before.

        They are asked as rows are: cached answers cost nothing, and budgets count the others. An example that fails is
        asked a second time. If it fails again, the call is not calibrated: without it the offsets would be others, and
        so would be the answers of the next run.

        Raises:
            EngineError: the engine is gone, or an example failed and the call says `on_error => 'fail'`.
            BudgetExceededError: the budget is spent, and the session wants the query to fail then.
            CancelledError: the query was cancelled.
        """
        with self._lock:
            if not self._done:
                calibrate = self._by_examples if self._sample is None else self._by_rows
                self._counters.note(0, 0, calibration=calibrate(cancelled))
                self._done = True

    def _read(self, text: str) -> Any:
        return self._parse(text)

    def _by_rows(self, cancelled: Callable[[], bool]) -> str:
        """Calibrate by sampled rows, whose answers are kept for the rows themselves; return in words how."""
        rows = [] if self._sample is None else self._sample()
        known = self._answers_about(rows, cancelled) if rows and self._binding.has_probabilities() else []
        offsets = row_offsets(known)
        if offsets is None:
            reason = "they are too few" if known or not rows else "the model's probabilities are unknown"
            return f"by none of {len(rows)} rows: {reason}"
        self._parse = with_offsets(self._given, offsets).parse
        return f"by a sample of {len(known)} rows"

    def _answers_about(
        self, rows: Sequence[tuple[str | None, ...]], cancelled: Callable[[], bool]
    ) -> list[list[float]]:
        """Return the probabilities of the options for the rows that have a usable answer."""
        binding, call = self._binding, self._given
        fields = tuple(range(len(call.fields)))
        site = CallSite(
            probabilities_of(call),
            tuple((field,) for field in fields),
            fields,
            None,
            None,
            binding.keys(call, fields_first=self._fields_first),
            self._counters,
            self._fields_first,
            binding.prompt_format,
            asks_example=True,
        )
        columns = [pa.array([row[field] for row in rows], pa.string()) for field in fields]
        batch = pa.RecordBatch.from_arrays(columns, [str(field) for field in fields])
        context = CallContext(binding, binding.in_flight.open(), (site,), all_at_once(1), prompts_counted=False)
        prompts = PromptBatch(batch, np.arange(len(rows)), list(rows))
        [done] = CallExecutor(context).answer(iter([prompts]), cancelled)
        found = [answer for answer in done.answers[0] if answer is not None]
        self._counters.add(distinct_prompts=-len(found))  # the rows count their prompts themselves
        return [answer["value"] for answer in found if answer["value"]]

    def _by_examples(self, cancelled: Callable[[], bool]) -> str:
        """Calibrate by the examples; return in words how."""
        call = self._given
        examples, count = call.labelled, len(call.labelled)
        if not self._binding.has_probabilities():
            return f"by none of {count} examples, which are not asked: the model's probabilities are unknown"
        answers = self._answers(examples, cancelled)
        if failed := [place for place, answer in enumerate(answers) if answer["error"] is not None]:
            again = self._answers([examples[place] for place in failed], cancelled)
            for place, answer in zip(failed, again, strict=True):
                answers[place] = answer
        if errors := [answer["error"] for answer in answers if answer["error"] is not None]:
            text = f"by none of {count} examples: {len(errors)} of them had no answer, because {errors[0]}"
            if call.on_error == "fail":
                raise AnswerError(f"{call.text}: calibrated {text} (calibrate => 'off' does not ask the examples)")
            _log.warning("examples without an answer", failed=len(errors), examples=count, function=call.function)
            self._warn(f"{call.text}: calibrated {text}")
            return text
        known = [
            (answer["value"], one.wanted) for answer, one in zip(answers, examples, strict=True) if answer["value"]
        ]
        offsets = fitted_offsets([found for found, _ in known], [wanted for _, wanted in known])
        if offsets is None:
            reason = "they would not improve the answers" if known else "the model's probabilities are unknown"
            return f"by none of {count} examples: {reason}"
        self._parse = with_offsets(call, offsets).parse
        return f"by {len(known)} of {count} examples"

    def _answers(self, examples: Sequence[LabelledExample], cancelled: Callable[[], bool]) -> list[dict[str, Any]]:
        """Return for each example the probabilities of the options as `value`, or an `error`.

        One pass asks them all: example n is the tuple of call n.
        """
        binding, width = self._binding, len(self._given.fields)
        columns = [pa.array([one.values[field] for one in examples], pa.string()) for field in range(width)]
        asks = [pa.array([row == place for row in range(len(examples))]) for place in range(len(examples))]
        names = [str(column) for column in range(width + len(examples))]
        rows = pa.RecordBatch.from_arrays([*columns, *asks], names)
        batch = PromptBatch(rows, np.arange(len(examples)), [one.values for one in examples])
        fields = tuple(range(width))
        sites = tuple(
            CallSite(
                one.call,
                tuple((field,) for field in fields),
                fields,
                width + place,
                None,
                binding.keys(one.call, fields_first=self._fields_first),
                self._counters,
                self._fields_first,
                binding.prompt_format,
                asks_example=True,
            )
            for place, one in enumerate(examples)
        )
        context = CallContext(binding, binding.in_flight.open(), sites, all_at_once(len(sites)), prompts_counted=False)
        [done] = CallExecutor(context).answer(iter([batch]), cancelled)
        answers = [done.answers[place][place] for place in range(len(sites))]
        return [{"value": [], "error": None} if answer is None else answer for answer in answers]
