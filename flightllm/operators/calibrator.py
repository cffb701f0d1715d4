"""Ask the examples of a call, and put the cut between its options where they say it is."""

from collections.abc import Callable
from threading import Lock

import numpy as np
import pyarrow as pa
import structlog

from flightllm.functions.calibration import fitted_offsets, with_offsets
from flightllm.functions.call import AICall
from flightllm.operators.batches import PromptBatch
from flightllm.operators.cache import CacheKeys
from flightllm.operators.call_context import CallContext, CallSite, ModelBinding, all_at_once
from flightllm.operators.call_executor import CallExecutor
from flightllm.operators.rows import Counters

_log = structlog.get_logger(__name__)


class Calibrator:
    """Calibrate the calls of one run of a query, each once. Thread-safe."""

    def __init__(self, cancelled: Callable[[], bool], *, fields_first: bool) -> None:
        self._cancelled = cancelled
        self._fields_first = fields_first
        self._lock = Lock()
        self._known: dict[str, AICall] = {}
        self._told: dict[str, str] = {}

    def of(self, call: AICall, binding: ModelBinding, counters: Counters) -> AICall:
        """Return the call with the offsets that its examples give; the same call where they do not help.

        The examples are asked as rows are: cached answers cost nothing, and budgets count the others.

        Raises:
            EngineError: the engine is gone.
            BudgetExceededError: the budget is spent, and the session wants the query to fail then.
            CancelledError: the query was cancelled.
        """
        if not call.labelled:
            return call
        with self._lock:
            if call.stub not in self._known:
                self._known[call.stub] = self._calibrated(call, binding, counters)
            return self._known[call.stub]

    def told(self, call: AICall) -> str:
        """Return in words how a call was calibrated; empty for a call without examples to calibrate by."""
        return self._told.get(call.stub, "")

    def _calibrated(self, call: AICall, binding: ModelBinding, counters: Counters) -> AICall:
        answers = self._ask(call, binding, _WithoutRows(counters))
        known = [(found, one.wanted) for found, one in zip(answers, call.labelled, strict=True) if found]
        failed = sum(found is None for found in answers)
        if failed:
            _log.warning("examples without an answer", failed=failed, examples=len(answers), function=call.function)
        offsets = fitted_offsets([found for found, _ in known], [wanted for _, wanted in known])
        if offsets is None:
            reason = "they would not improve the answers" if known else "the model's probabilities are unknown"
            self._told[call.stub] = f"by none of {len(answers)} examples: {reason}"
            return call
        self._told[call.stub] = f"by {len(known)} of {len(answers)} examples"
        return with_offsets(call, offsets)

    def _ask(self, call: AICall, binding: ModelBinding, counters: Counters) -> list[list[float] | None]:
        """Return the probabilities of the options for each example; None for an example without an answer.

        One pass asks them all: example n is the tuple of call n.
        """
        examples, width = call.labelled, len(call.fields)
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
                CacheKeys(one.call, binding.revision, fields_first=self._fields_first),
                counters,
                self._fields_first,
                binding.prompt_format,
            )
            for place, one in enumerate(examples)
        )
        turns = all_at_once(len(sites))
        context = CallContext(binding, binding.in_flight.open(), sites, turns, prompts_counted=False)
        [done] = CallExecutor(context).answer(iter([batch]), self._cancelled)
        return [done.answers[place][place] for place in range(len(sites))]


class _WithoutRows:
    """The figures of a call, to which its examples add prompts and tokens, but no rows."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self.sent = counters.sent
        self.received = counters.received

    def add(self, **deltas: int) -> None:
        """Add to the named counters, except to those of rows."""
        self._counters.add(**{name: value for name, value in deltas.items() if not name.endswith("rows")})
