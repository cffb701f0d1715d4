"""AI calls as batch functions of DataFusion: for calls that no operator can take, and without the optimizer."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import structlog
from datafusion import SessionContext, udf

from flightllm.functions.call import SEARCH, AICall
from flightllm.functions.normalize import normalised_tuple
from flightllm.llm.engine import Completion, Dispatch, Request
from flightllm.observe.query_record import CallRecord
from flightllm.operators.batches import PromptBatch
from flightllm.operators.budget import Reservation
from flightllm.operators.calibrator import Calibrator
from flightllm.operators.call_context import CallContext, CallSite, ModelBinding, all_at_once
from flightllm.operators.call_executor import CallExecutor
from flightllm.operators.label_budget import LabelBudget
from flightllm.operators.prompt_sender import Trace, Tries
from flightllm.operators.repair import repair_prompt, repaired
from flightllm.operators.rows import Counters, Reading, Response, answer_column, given_fields, read_answer, sql_value
from flightllm.operators.searches import QueryColumn, Searcher
from flightllm.operators.sets.run import answered_sets

_Function: TypeAlias = Callable[..., pa.Array]


@dataclass(frozen=True, slots=True)
class BatchFunctions:
    """The parts that all batch functions of one query share."""

    bindings: Mapping[str, ModelBinding]
    distinct: bool
    """Each distinct prompt of a batch is sent once; otherwise each row has a call of its own, and nothing is reused."""
    fields_first: bool
    """Prompts begin with the fields, and not with the instruction."""
    counters: Callable[[AICall], CallRecord]
    cancelled: Callable[[], bool]
    searcher: Callable[[], Searcher]
    """Returns the object that answers searches."""
    calibrator: Calibrator
    """Puts the cut between the options of calls with examples right, before their first row."""
    warn: Callable[[str], None]
    """Gets what the query's result lacks."""
    errors: list[Exception]
    """The exceptions of the functions. DataFusion itself keeps only their text."""

    def register(self, context: SessionContext, calls: Mapping[str, AICall]) -> None:
        """Register a function under each call's stub name; it asks the engine for the rows of its batch."""
        for stub, call in calls.items():
            answer = self._answer(call)
            inputs = [call.takes] * max(1, len(call.fields))
            context.register_udf(udf(self._kept(answer, call.function), inputs, call.type, "volatile", stub))

    def _answer(self, call: AICall) -> _Function:
        if call.backend == SEARCH:
            search, counters = self.searcher().open(call.instruction), self.counters(call)
            return lambda queries: QueryColumn(search, queries, counters).answers(0, len(queries))
        if call.over is not None:
            return _each_set(self, call)
        each = _each_prompt if self.distinct and not call.fresh else _each_row
        return each(self, call, self.bindings[call.binding])

    def proxy_counters(self, operator: str, call: AICall, binding: str) -> CallRecord:
        """Return the call site of a proxy; batch functions have no `operator`."""
        del operator, binding
        site = self.counters(call)
        site.note(0, 0, role="proxy")
        return site

    def label_budget(self, call: AICall) -> LabelBudget | None:
        """Return the label budget of a call."""
        most = None if call.promise is None else call.promise.label_budget
        return None if most is None else LabelBudget(call, most, self.warn)

    def _kept(self, answer: _Function, name: str) -> _Function:
        bound = structlog.contextvars.get_contextvars()  # DataFusion calls the function in its own threads

        def function(*columns: pa.Array) -> pa.Array:
            try:
                with structlog.contextvars.bound_contextvars(**bound):
                    return answer(*columns)
            except Exception as error:  # this is the boundary to DataFusion
                self.errors.append(error)
                raise

        function.__name__ = name
        return function


def _each_set(shared: BatchFunctions, call: AICall) -> _Function:
    """Answer a batch of sets, each of which is one value of a column. Another batch can count a prompt again."""
    counters = shared.counters(call)
    return lambda *columns: answered_sets(call, columns, shared, counters)


def _each_prompt(shared: BatchFunctions, call: AICall, binding: ModelBinding) -> _Function:
    """Answer a batch as an operator does: send each distinct prompt once. Another batch can count the prompt again.

    DataFusion can run the function on several partitions at once, so each batch has an executor of its own.
    """
    fields = tuple(range(len(call.fields)))
    places = tuple((field,) for field in fields)
    keys = binding.keys(call, fields_first=shared.fields_first)
    counters = shared.counters(call)

    calibration = shared.calibrator.of(call, binding, counters)
    site = CallSite(
        call,
        places,
        fields,
        None,
        None,
        keys,
        counters,
        shared.fields_first,
        binding.prompt_format,
        prepare=None if calibration is None else calibration.ask,
        label_budget=shared.label_budget(call),
    )

    def answer(*columns: pa.Array) -> pa.Array:
        runs: dict[tuple[str | None, ...], tuple[int, tuple[str | None, ...]]] = {}
        values = zip(*(c.to_pylist() for c in columns), strict=True)
        numbers = (runs.setdefault(normalised_tuple(v, call.normalize), (len(runs), v))[0] for v in values)
        run = np.fromiter(numbers, np.int64, len(columns[0]))
        rows = pa.RecordBatch.from_arrays([*columns], [str(i) for i in range(len(columns))])
        prompt_batch = PromptBatch(rows, run, [first for _, first in runs.values()])
        context = CallContext(binding, binding.in_flight.open(), [site], all_at_once(1))
        [done] = CallExecutor(context).answer(iter([prompt_batch]), shared.cancelled)
        _note(site.label_budget, counters, binding)
        return answer_column(done.answers[0], call.type).take(pa.array(run))

    return answer


def _note(budget: LabelBudget | None, record: CallRecord, binding: ModelBinding) -> None:
    """Note that a promise is not held, where the label budget is spent; a dry run promises nothing."""
    if budget is not None and binding.asked_share is None:
        record.promise = budget.figures()


def _each_row(shared: BatchFunctions, call: AICall, binding: ModelBinding) -> _Function:
    """Answer a batch by one call per row."""
    counters = shared.counters(call)
    calibration = shared.calibrator.of(call, binding, counters)
    budget = shared.label_budget(call)

    def answer(*columns: pa.Array) -> pa.Array:
        rows = _Rows(binding, call, counters, len(columns[0]), budget, fields_first=shared.fields_first)
        if calibration is not None and rows.any_asked(columns):
            rows.call = calibration.ask(shared.cancelled)
        try:
            for completion in binding.engine.generate(rows.requests(columns), shared.cancelled):
                rows.settle(completion)
        finally:
            rows.abandon()
        counters.add(rows=len(rows.values))
        _note(budget, counters, binding)
        return answer_column(rows.values, call.type)

    return answer


class _Rows:
    """The rows of one batch, each with its own call."""

    def __init__(
        self,
        binding: ModelBinding,
        call: AICall,
        counters: Counters,
        count: int,
        label_budget: LabelBudget | None,
        *,
        fields_first: bool,
    ) -> None:
        self._label_budget = label_budget
        self._budget = binding.budget
        self._tenant, self._user = binding.tenant, binding.user
        self._precedence = binding.precedence
        self._prompt_format = binding.prompt_format
        self._fields_first = fields_first
        self.call = call
        """The call that is asked."""
        self._named = [(name, i, i in call.required, i in call.lists) for i, name in enumerate(call.fields)]
        self._counters = counters
        self._trace = Trace()
        self._reservations: dict[int, Reservation] = {}
        self._repairs = binding.repair and call.parameters.constraint is not None
        self._flying: dict[int, Request] = {}
        self._first: dict[int, Reading] = {}
        """For each row whose prompt is sent again, the fault of the first answer."""
        self._again: deque[Request] = deque()
        self.values: list[Any] = [None] * count

    def any_asked(self, columns: tuple[pa.Array, ...]) -> bool:
        """Return whether a row needs an answer."""
        rows = zip(*(c.to_pylist() for c in columns), strict=True)
        return any(given_fields(self._named, values) is not None for values in rows)

    def requests(self, columns: tuple[pa.Array, ...]) -> Iterator[Request | None]:
        """Yield a request for each row that needs one and that the budget allows; None while the next one must wait."""
        call = self.call
        for row, values in enumerate(zip(*(c.to_pylist() for c in columns), strict=True)):
            fields = given_fields(self._named, values)
            if fields is None:
                continue
            self._counters.add(distinct_prompts=1)
            if self._label_budget is not None:
                paid = self._label_budget.take()
                self._label_budget.count("asked" if paid else "left", 1)
                if not paid:
                    self._fill(row, Reading(None))
                    continue
            prompt = call.prompt(fields, fields_first=self._fields_first, prompt_format=self._prompt_format)
            request = Request(
                row,
                prompt,
                call.parameters,
                call.function,
                call.instruction,
                tuple(fields),
                self._tenant,
                self._precedence.now,
                user=self._user,
                max_tokens=call.max_tokens(fields),
            )
            yield from self._sent(request)
            while self._again:
                yield from self._sent(self._again.popleft())
        while self._repairs and (self._again or self._flying):
            yield from self._sent(self._again.popleft()) if self._again else [None]

    def _sent(self, request: Request) -> Iterator[Request | None]:
        """Yield a request once the budget allows it, and None until then. If it never does, fill the row."""
        row = request.id
        if self._budget is not None:
            while (taken := self._budget.take(request)) is None and self._budget.refusal is None:
                yield None
            if taken is None:
                self._fill(row, self._first.pop(row, Reading(None, self._budget.refusal)))
                return
            self._reservations[row] = taken
        self._flying[row] = request
        Tries(request.dispatch, self._budget, self._reservations.get(row), self._counters).follow()
        self._counters.sent(repair=row in self._first)
        self._precedence.sent()
        self._trace.sent(request)
        yield request

    def settle(self, completion: Completion) -> None:
        """Read an answer and fill its row, or queue the prompt that asks again."""
        self._trace.received(completion)
        row = completion.id
        request = self._flying.pop(row)
        self._counters.received(completion, request.dispatch.age())
        if self._budget is not None:
            self._budget.settle(self._reservations.pop(row), completion)
        response = Response.of(self.call, completion, request.limit)
        found = read_answer(self.call, response)
        first = self._first.pop(row, None)
        if first is not None:
            found = repaired(first, found)
        elif self._repairs and found.fault is not None:
            prompt = repair_prompt(request.prompt, response, found.fault, self.call.parameters.constraint)
            self._first[row] = found
            self._again.append(replace(request, prompt=prompt, dispatch=Dispatch()))
            return
        self._fill(row, found)

    def abandon(self) -> None:
        """Settle the reservations of rows that will have no answer. A prompt that was not sent is not counted."""
        for row, request in self._flying.items():
            left = not request.dispatch.waits
            if not left:
                self._counters.add(calls=-1)
            if self._budget is not None and row in self._reservations:
                self._budget.release(self._reservations[row], sent=left, billed=request.dispatch.billed)

    def _fill(self, row: int, found: Reading) -> None:
        self._counters.add(failed_rows=found.failure is not None)
        self.values[row] = sql_value(self.call, found.value, found.failure)
