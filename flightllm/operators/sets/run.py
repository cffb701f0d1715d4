"""Run a call over sets: collect the values of all rows, let the method answer, and give each row its answer."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flightllm.datafusion.run import Batches
from flightllm.errors import InternalError, check_cancelled
from flightllm.observe.query_record import CallRecord
from flightllm.operators.call_context import LimitTracker
from flightllm.operators.rows import answer_column, sql_value
from flightllm.operators.runtime import Runtime
from flightllm.operators.sets.asker import Asker, Texts
from flightllm.operators.sets.base import Failure, SetValues
from flightllm.operators.sets.runners import runner_of
from flightllm.plan.stages import StageCall

_NOT_NEEDED: Final = -1
"""The number of a row's value where the row needs no answer."""


def run_set(
    call: StageCall,
    rows: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    runtime: Runtime,
    counters: CallRecord,
    tracker: LimitTracker,
) -> Batches:
    """Yield rows with the answers of a call over sets as their last column; `schema` is that of the result.

    With `OverSet.whole`, no row comes before the last answer. Otherwise a LIMIT takes some sets at a time.

    Raises:
        AnswerError: a value has no answer and the call says `on_error => 'fail'`.
        CancelledError: the query was cancelled.
    """
    over = call.ai.over
    if over is None:
        raise InternalError(f"{call.ai.text} is not over a set")
    kept = list(rows)
    read = _read(call, kept, runtime)
    counters.note(len(read.numbers), len(read.tuples))
    run, asker = runner_of(over.method), Asker(call.ai, runtime, counters)
    waves = _waves(read, tracker) if tracker.limited and not over.whole else iter([read.numbers])
    answers: dict[int, Any] = {}
    position, done = 0, 0
    for wave in waves:
        new = [number for number in dict.fromkeys(wave.tolist()) if number != _NOT_NEEDED and number not in answers]
        new.sort(key=lambda number: _order(read.tuples[number]))
        values = SetValues([read.tuples[n] for n in new], read.weights[new] if new else np.empty(0, np.int64))
        answers.update(zip(new, run(values, asker) if new else (), strict=True))
        position += len(wave)
        for batch, numbers in _slices(kept, read.numbers, done, position):
            check_cancelled(runtime.cancelled)
            yield _answered(call, batch, [answers.get(n) for n in numbers.tolist()], schema, counters)
        done = position
        if tracker.limited:
            tracker.add_trials(len(wave))


@dataclass(frozen=True, slots=True)
class _Read:
    """The distinct values of all rows, and the number of each row's value."""

    tuples: list[Texts]
    weights: NDArray[np.int64]
    numbers: NDArray[np.int64]


def _read(call: StageCall, rows: Sequence[pa.RecordBatch], runtime: Runtime) -> _Read:
    known: dict[Texts, int] = {}
    numbers: list[NDArray[np.int64]] = []
    for batch in rows:
        check_cancelled(runtime.cancelled)
        numbers.append(_numbers(call, batch, known))
    every = np.concatenate(numbers) if numbers else np.empty(0, np.int64)
    weights = np.bincount(every[every != _NOT_NEEDED], minlength=len(known)).astype(np.int64)
    return _Read(list(known), weights, every)


def _numbers(call: StageCall, batch: pa.RecordBatch, known: dict[Texts, int]) -> NDArray[np.int64]:
    """Return the number of each row's value; values that are new get the next numbers."""
    fields = len(call.ai.fields)
    columns = [batch.column(column).to_pylist() for column in call.arguments[:fields]]
    needed = np.ones(batch.num_rows, bool)
    if call.when is not None:
        needed = pc.fill_null(batch.column(call.when), fill_value=False).to_numpy(zero_copy_only=False)
    found = np.full(batch.num_rows, _NOT_NEEDED, np.int64)
    for row, values in enumerate(zip(*columns, strict=True)):
        there = all(values[field] is not None for field in call.ai.required)
        if needed[row] and there and any(value is not None for value in values):
            found[row] = known.setdefault(values, len(known))
    return found


def _order(values: Texts) -> bytes:
    """Return a hash of a value, so that the order of the rows decides nothing."""
    return blake2b(repr(values).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _waves(read: _Read, tracker: LimitTracker) -> Iterator[NDArray[np.int64]]:
    """Cut the rows into waves, each with as many rows as the LIMIT is expected to need."""
    first = 0
    while first < len(read.numbers):
        if not (wanted := tracker.trials_needed()):
            return
        yield read.numbers[first : first + wanted]
        first += wanted


def _slices(
    rows: Sequence[pa.RecordBatch], numbers: NDArray[np.int64], first: int, last: int
) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
    """Yield the rows from `first` to `last` with the numbers of their values."""
    start = 0
    for batch in rows:
        begin, end = max(first, start), min(last, start + batch.num_rows)
        if begin < end:
            yield batch.slice(begin - start, end - begin), numbers[begin:end]
        start += batch.num_rows


def _answered(
    call: StageCall, batch: pa.RecordBatch, answers: Sequence[Any], schema: pa.Schema, counters: CallRecord
) -> pa.RecordBatch:
    values, failed = [], 0
    for answer in answers:
        error = answer.error if isinstance(answer, Failure) else None
        failed += error is not None
        values.append(None if answer is None else sql_value(call.ai, None if error else answer, error))
    counters.add(rows=batch.num_rows, failed_rows=failed)
    return pa.RecordBatch.from_arrays([*batch.columns, answer_column(values, call.ai.type)], schema=schema)
