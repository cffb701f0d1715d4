"""AI calls as ordinary batch functions of DataFusion: the path without the optimizer, one call per row and no reuse."""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

import pyarrow as pa
from datafusion import SessionContext, udf

from flightllm.ai import AICall
from flightllm.errors import FlightLLMError
from flightllm.llm.base import Engine, Request
from flightllm.operators.rows import Counters, given_fields, parsed


def register_batch_udfs(
    context: SessionContext,
    calls: Mapping[str, AICall],
    engine: Engine,
    counters: Callable[[AICall], Counters],
    cancelled: Callable[[], bool],
    errors: list[FlightLLMError],
) -> None:
    """Register a function under each call's stub name that asks the engine for every row of its batch.

    DataFusion makes one text of an exception and its traceback, so what a function raises is also put into `errors`.
    """
    for stub, call in calls.items():
        function = _BatchFunction(call, engine, counters(call), cancelled, errors)
        inputs = [pa.string()] * max(1, len(call.fields))
        context.register_udf(udf(function, inputs, call.type, "volatile", stub))


class _BatchFunction:
    """One call site; DataFusion may run it on several partitions at once."""

    def __init__(
        self,
        call: AICall,
        engine: Engine,
        counters: Counters,
        cancelled: Callable[[], bool],
        errors: list[FlightLLMError],
    ) -> None:
        self.__name__ = call.function
        self._call = call
        self._engine = engine
        self._counters = counters
        self._cancelled = cancelled
        self._errors = errors

    def __call__(self, *columns: pa.Array) -> pa.Array:
        try:
            return self._answer(columns)
        except FlightLLMError as error:
            self._errors.append(error)
            raise

    def _answer(self, columns: tuple[pa.Array, ...]) -> pa.Array:
        values: list[Any] = [None] * len(columns[0])
        for completion in self._engine.generate(self._requests(columns), self._cancelled):
            self._counters.add(
                calls=1,
                prompt_tokens=completion.prompt_tokens,
                cached_tokens=completion.cached_tokens,
                completion_tokens=completion.completion_tokens,
            )
            values[completion.id] = self._value(completion.text, completion.error)
        self._counters.add(rows=len(values))
        return pa.array(values, type=self._call.type)

    def _requests(self, columns: tuple[pa.Array, ...]) -> Iterator[Request]:
        call = self._call
        named = [(name, i, i in call.required) for i, name in enumerate(call.fields)]
        for row, values in zip(count(), zip(*(c.to_pylist() for c in columns), strict=True), strict=False):
            fields = given_fields(named, values)
            if fields is None:
                continue
            self._counters.add(distinct_prompts=1)
            yield Request(row, call.prompt(fields), call.parameters, call.function, call.instruction, tuple(fields))

    def _value(self, text: str | None, error: str | None) -> Any:
        value, failure = parsed(self._call, text, error)
        if failure is not None:
            self._counters.add(failed_rows=1)
        return value
