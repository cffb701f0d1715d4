"""AI calls as ordinary batch functions of DataFusion: for what no operator can take, and without the optimizer."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from datafusion import SessionContext, udf

from flightllm.ai import AICall
from flightllm.llm.base import Engine, Request
from flightllm.normalised import normalised_tuple
from flightllm.operators.asking import Asker, Means, Site, all_at_once
from flightllm.operators.batches import Unit
from flightllm.operators.cache import Keys
from flightllm.operators.rows import Counters, given_fields, read_answer, sql_value
from flightllm.operators.trace import Trace

_Function: TypeAlias = Callable[..., pa.Array]


@dataclass(frozen=True, slots=True)
class BatchFunctions:
    """What the batch functions of one query share."""

    engine: Engine
    means: Callable[[], Means] | None
    """What a batch asks its prompts with; None for one call per row and no reuse at all."""
    counters: Callable[[AICall], Counters]
    cancelled: Callable[[], bool]
    errors: list[Exception]
    """What functions raised: DataFusion makes one text of an exception and its traceback."""

    def register(self, context: SessionContext, calls: Mapping[str, AICall]) -> None:
        """Register a function under each call's stub name that asks the engine for the rows of its batch."""
        for stub, call in calls.items():
            answer = _each_row(self, call) if self.means is None else _each_prompt(self, call, self.means)
            inputs = [pa.string()] * max(1, len(call.fields))
            context.register_udf(udf(self._kept(answer, call.function), inputs, call.type, "volatile", stub))

    def _kept(self, answer: _Function, name: str) -> _Function:
        def function(*columns: pa.Array) -> pa.Array:
            try:
                return answer(*columns)
            except Exception as error:  # the boundary to DataFusion
                self.errors.append(error)
                raise

        function.__name__ = name
        return function


def _each_prompt(shared: BatchFunctions, call: AICall, means: Callable[[], Means]) -> _Function:
    """Answer a batch like an operator does, each of its distinct prompts once; another batch may count them again.

    DataFusion may run it on several partitions at once, so each batch has an asker of its own.
    """
    fields = tuple(range(len(call.fields)))
    site = Site(call, fields, fields, None, None, Keys(call, shared.engine.revision), shared.counters(call))

    def answer(*columns: pa.Array) -> pa.Array:
        runs: dict[tuple[str | None, ...], tuple[int, tuple[str | None, ...]]] = {}
        values = zip(*(c.to_pylist() for c in columns), strict=True)
        numbers = (runs.setdefault(normalised_tuple(v, call.normalize), (len(runs), v))[0] for v in values)
        run = np.fromiter(numbers, np.int64, len(columns[0]))
        rows = pa.RecordBatch.from_arrays([*columns], [str(i) for i in range(len(columns))])
        unit = Unit(rows, run, [first for _, first in runs.values()])
        asker = Asker(means(), [site], *all_at_once(1))
        [done] = asker.answer(iter([unit]), shared.cancelled)
        return pa.array(done.answers[0], type=call.type).take(pa.array(run))

    return answer


def _each_row(shared: BatchFunctions, call: AICall) -> _Function:
    """Answer a batch by one call per row."""
    named = [(name, i, i in call.required) for i, name in enumerate(call.fields)]
    counters, trace = shared.counters(call), Trace()

    def requests(columns: tuple[pa.Array, ...]) -> Iterator[Request]:
        for row, values in enumerate(zip(*(c.to_pylist() for c in columns), strict=True)):
            fields = given_fields(named, values)
            if fields is None:
                continue
            counters.add(distinct_prompts=1, calls=1)
            prompt = call.prompt(fields)
            request = Request(row, prompt, call.parameters, call.function, call.instruction, tuple(fields))
            trace.sent(request)
            yield request

    def answer(*columns: pa.Array) -> pa.Array:
        values: list[Any] = [None] * len(columns[0])
        for completion in shared.engine.generate(requests(columns), shared.cancelled):
            trace.received(completion)
            value, failure = read_answer(call, completion.text, completion.error)
            counters.add(
                prompt_tokens=completion.prompt_tokens,
                cached_tokens=completion.cached_tokens,
                completion_tokens=completion.completion_tokens,
                failed_rows=failure is not None,
            )
            values[completion.id] = sql_value(call, value, failure)
        counters.add(rows=len(values))
        return pa.array(values, type=call.type)

    return answer
