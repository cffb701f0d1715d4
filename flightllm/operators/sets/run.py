"""Run a call over sets: collect the values of all rows, let the method answer, and give each row its answer."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice, repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flightllm.datafusion.run import Batches
from flightllm.errors import InternalError, check_cancelled
from flightllm.functions.call import AICall
from flightllm.observe.query_record import CallRecord
from flightllm.operators.call_context import LimitTracker
from flightllm.operators.rows import answer_column, sql_value
from flightllm.operators.runtime import Runtime
from flightllm.operators.sets.asker import Asker, Asking, Texts
from flightllm.operators.sets.base import Failure, SetRunner, SetStreamer, SetValues
from flightllm.operators.sets.runners import runner_of, streamer_of
from flightllm.plan.stages import StageCall


def run_set(
    call: StageCall,
    rows: Callable[[], Iterable[pa.RecordBatch]],
    schema: pa.Schema,
    runtime: Runtime,
    counters: CallRecord,
    tracker: LimitTracker,
) -> Batches:
    """Yield rows with the answers of a call over sets as their last column; `schema` is that of the result.

    `rows` returns all rows, each time it is called. With `OverSet.whole`, no row comes before the last answer.
    Otherwise a LIMIT takes some sets at a time.

    Raises:
        AnswerError: a value has no answer and the call says `on_error => 'fail'`.
        CancelledError: the query was cancelled.
    """
    over = call.ai.over
    if over is None:
        raise InternalError(f"{call.ai.text} is not over a set")
    asker = Asker(call.ai, runtime, counters)
    sets = _Sets(call.ai, call.arguments, call.when, runner_of(over.method), asker)
    if not tracker.limited or over.whole or streamer_of(over) is not None:
        for batch in rows():
            check_cancelled(runtime.cancelled)
            sets.add(batch)
        counters.note(sets.rows, len(sets.known))
        if (stream := streamer_of(over)) is not None:
            yield from _streamed(call, rows, schema, sets, stream, runtime, counters)
            return
        sets.answer()
        for batch in rows():
            check_cancelled(runtime.cancelled)
            yield _answered(call, batch, sets.answers_of(batch), schema, counters)
        return
    for batch in rows():
        first = 0
        while first < batch.num_rows and (wanted := tracker.trials_needed()):
            wave = batch.slice(first, wanted)
            before = len(sets.known)
            sets.add(wave)
            counters.note(wave.num_rows, len(sets.known) - before)
            sets.answer()
            yield _answered(call, wave, sets.answers_of(wave), schema, counters)
            tracker.add_trials(wave.num_rows)
            first += wanted


def _streamed(
    call: StageCall,
    rows: Callable[[], Iterable[pa.RecordBatch]],
    schema: pa.Schema,
    sets: "_Sets",
    stream: SetStreamer,
    runtime: Runtime,
    counters: CallRecord,
) -> Batches:
    """Yield all rows after each wave of answers; the wave after it begins once the reader wants more.

    The record counts only the rows of the last wave, because each wave has the same rows.
    """
    last = Counter[str]()
    try:
        for _ in sets.waves(stream):
            last.clear()
            for batch in rows():
                check_cancelled(runtime.cancelled)
                answers = sets.answers_of(batch)
                last += _counts(answers)
                yield _with_column(batch, _column(call.ai, answers), schema)
    finally:
        counters.add(**last)


class _Sets:
    """The distinct values of the rows so far, and their answers. The order of the rows decides nothing."""

    def __init__(self, call: AICall, arguments: Sequence[int], when: int | None, run: SetRunner, asker: Asker) -> None:
        """`arguments` are the columns of the call's fields, and `when` says which rows need an answer."""
        self._call = call
        self._columns = arguments[: len(call.fields)]
        self._when = when
        self._run = run
        self._asker = asker
        self.known: dict[Texts, int] = {}
        """The number of each value."""
        self.rows = 0
        self._weights: list[int] = []
        """The number of rows of each value."""
        self._answers: list[Any] = []
        """The answers of the first values; the other values are not answered yet."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the values of some rows."""
        self.rows += batch.num_rows
        for values in self._needed(batch):
            if values is None:
                continue
            number = self.known.setdefault(values, len(self.known))
            if number == len(self._weights):
                self._weights.append(0)
            self._weights[number] += 1

    def answer(self) -> None:
        """Let the method answer for the values without an answer."""
        first, (order, values) = len(self._answers), self._new()
        if order:
            self._take(first, order, self._run(values, self._asker))

    def waves(self, stream: SetStreamer) -> Iterator[None]:
        """Let the method answer for all values, and again after each wave of prompts."""
        order, values = self._new()
        if not order:
            yield
            return
        for found in stream(values, self._asker):
            self._answers.clear()
            self._take(0, order, found)
            yield

    def _new(self) -> tuple[list[int], SetValues]:
        """Return the values without an answer, in an order by their hashes, and their places among them."""
        first = len(self._answers)
        new = list(islice(self.known, first, None))
        order = sorted(range(len(new)), key=lambda place: _order(new[place]))
        weights = np.asarray(self._weights[first:], np.int64)[order] if order else np.empty(0, np.int64)
        return order, SetValues([new[place] for place in order], weights)

    def _take(self, first: int, order: Sequence[int], found: Sequence[Any]) -> None:
        self._answers += [None] * len(order)
        for place, value in zip(order, found, strict=True):
            self._answers[first + place] = value

    def answers_of(self, batch: pa.RecordBatch) -> list[Any]:
        """Return the answer of each row; None for a row that needs no answer."""
        return [None if values is None else self._answers[self.known[values]] for values in self._needed(batch)]

    def _needed(self, batch: pa.RecordBatch) -> Iterator[Texts | None]:
        """Yield the values of each row; None where the row needs no answer."""
        columns = [batch.column(column).to_pylist() for column in self._columns]
        needed: Iterable[bool] = repeat(object=True, times=batch.num_rows)
        if self._when is not None:
            needed = pc.fill_null(batch.column(self._when), fill_value=False).to_pylist()
        for wanted, values in zip(needed, zip(*columns, strict=True), strict=True):
            there = all(values[field] is not None for field in self._call.required)
            yield values if wanted and there and any(value is not None for value in values) else None


def _order(values: Texts) -> bytes:
    """Return a hash of a value, so that the order of the rows decides nothing."""
    return blake2b(repr(values).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def answered_sets(call: AICall, columns: Sequence[pa.Array], asking: Asking, counters: CallRecord) -> pa.Array:
    """Return the answers for columns whose values are sets, in one piece; for calls that no operator can take.

    Raises:
        AnswerError: a value has no answer and the call says `on_error => 'fail'`.
        CancelledError: the query was cancelled.
    """
    over = call.over
    if over is None or over.whole:
        raise InternalError(f"{call.text} needs all rows")
    rows = pa.RecordBatch.from_arrays([*columns], [str(place) for place in range(len(columns))])
    sets = _Sets(call, range(len(columns)), None, runner_of(over.method), Asker(call, asking, counters))
    sets.add(rows)
    counters.note(sets.rows, len(sets.known))
    sets.answer()
    answers = sets.answers_of(rows)
    counters.add(**_counts(answers))
    return _column(call, answers)


def _answered(
    call: StageCall, batch: pa.RecordBatch, answers: Sequence[Any], schema: pa.Schema, counters: CallRecord
) -> pa.RecordBatch:
    counters.add(**_counts(answers))
    return _with_column(batch, _column(call.ai, answers), schema)


def _with_column(batch: pa.RecordBatch, column: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*batch.columns, column], schema=schema)


def _counts(answers: Sequence[Any]) -> Counter[str]:
    """Return the numbers of rows and of those without an answer, as a call site counts them."""
    return Counter(rows=len(answers), failed_rows=sum(isinstance(answer, Failure) for answer in answers))


def _column(call: AICall, answers: Sequence[Any]) -> pa.Array:
    """Return the answers of rows as a column."""
    values = []
    for answer in answers:
        error = answer.error if isinstance(answer, Failure) else None
        values.append(None if answer is None else sql_value(call, None if error else answer, error))
    return answer_column(values, call.type)
