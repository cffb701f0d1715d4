"""Ask a join's call about single pairs of values, and keep the answers for the whole join."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flightllm.errors import check_cancelled
from flightllm.functions.base import Answer
from flightllm.functions.call import ELEMENT_END, AICall, name_stub
from flightllm.observe.query_record import CallRecord
from flightllm.operators.batches import PromptBatch
from flightllm.operators.call_context import CallContext, CallSite, ModelBinding, all_at_once
from flightllm.operators.call_executor import CallExecutor
from flightllm.operators.joins.candidates import Candidates, turned
from flightllm.operators.joins.exact import AskedPairs
from flightllm.operators.joins.values import Ints, Value
from flightllm.operators.oracle import alone
from flightllm.operators.rows import sorted_elements
from flightllm.operators.runtime import Runtime

NO, YES, NO_ANSWER = 0, 1, -1
_MOST_TUPLES = 512


@dataclass(slots=True)
class PairOracle:
    """The answers of the call's own model about pairs: `YES`, `NO` or `NO_ANSWER`. One thread uses it."""

    pairs: AskedPairs
    candidates: Candidates
    counters: CallRecord
    symmetric: bool
    known: dict[int, int] = field(default_factory=dict)
    """The answers so far, by pair."""
    _asked: AICall | None = None
    """The call as it is asked, once its examples have put the cut between yes and no right."""

    def ask(self, pairs: Ints) -> NDArray[np.int8]:
        """Return the answers about pairs, and ask for those that are new.

        Raises:
            EngineError: the engine is gone, or a prompt failed and the call says `on_error => 'fail'`.
            BudgetExceededError: the budget is spent, and the session wants the query to fail then.
            CancelledError: the query was cancelled.
        """
        asked = turned(pairs, self.candidates, len(self.pairs.values.found)) if self.symmetric else pairs
        new = [pair for pair in np.unique(asked).tolist() if pair not in self.known]
        ai, runtime = self._prepared(), self.pairs.runtime
        tuples = self.pairs.tuples(np.asarray(new, np.int64))
        for at, answer in answered(ai, tuples, runtime, self.counters):
            self.known[new[at]] = NO_ANSWER if answer is None else YES if answer else NO
        return np.asarray([self.known.get(pair, NO_ANSWER) for pair in asked.tolist()], np.int8)

    def matches(self) -> Ints:
        """Return the candidates that have the answer yes, each once."""
        yes = np.unique(self.answers()[0])
        return yes[self.candidates.has(yes)]

    def answers(self) -> tuple[Ints, Ints]:
        """Return the pairs that have the answer yes, and those with another answer or none; both in any order."""
        yes = np.asarray([pair for pair, answer in self.known.items() if answer == YES], np.int64)
        others = np.asarray([pair for pair, answer in self.known.items() if answer != YES], np.int64)
        if not self.symmetric:
            return yes, others
        count = len(self.pairs.values.found)
        return tuple(np.concatenate([p, p % count * count + p // count]) for p in (yes, others))  # type: ignore[return-value]

    def _prepared(self) -> AICall:
        if self._asked is None:
            ai, runtime = self.pairs.join.ai, self.pairs.runtime
            self._asked = ai
            if ai.labelled is not None or ai.uncalibrated:
                found = runtime.calibrator().of(ai, runtime.bindings[ai.binding], self.counters)
                self._asked = ai if found is None else found.ask(runtime.cancelled)
        return self._asked


def asking(ai: AICall, answer: Answer, fields: tuple[str, ...]) -> AICall:
    """Return a call of the same model with another question."""
    parameters = replace(
        ai.parameters, max_tokens=answer.max_tokens, constraint=answer.constraint, probability=answer.probability
    )
    call = replace(
        ai,
        instruction=answer.instruction,
        task=answer.instruction,
        asked=answer.asked,
        fields=fields,
        required=frozenset(),
        lists=frozenset(),
        parameters=parameters,
        output=answer.output,
        parse=answer.parse,
        on_error="struct",
        reading=answer.reading,
        room=answer.room,
        usual=answer.usual,
        labelled=None,
        uncalibrated="",
        join=None,
    )
    return name_stub(call)


def answered(
    ai: AICall, tuples: list[Value], runtime: Runtime, counters: CallRecord
) -> Iterator[tuple[int, object | None]]:
    """Ask a call about tuples of its fields; yield the place of each with its answer, or with None.

    Raises:
        FlightLLMError: as `replied`.
    """
    for place, reply in replied(ai, tuples, runtime, counters):
        yield place, reply["value"] if isinstance(reply, dict) else reply


def replied(
    ai: AICall, tuples: list[Value], runtime: Runtime, counters: CallRecord
) -> Iterator[tuple[int, object | None]]:
    """Ask a call about tuples of its fields; yield the place of each with its reply, as the call's type says.

    Raises:
        EngineError: the engine is gone, or a prompt failed and the call says `on_error => 'fail'`.
        BudgetExceededError: the budget is spent, and the session wants the query to fail then.
        CancelledError: the query was cancelled.
    """
    if not tuples:
        return
    binding = runtime.bindings[ai.binding]
    site = _site(ai, binding, runtime, counters)
    lists = [place for place in range(len(ai.fields)) if place in ai.lists]
    starts: dict[int, int] = {}

    def batches() -> Iterator[PromptBatch]:
        for start in range(0, len(tuples), _MOST_TUPLES):
            check_cancelled(runtime.cancelled)
            own = [_as_sent(one, lists) for one in tuples[start : start + _MOST_TUPLES]]
            numbers = np.arange(len(own))
            batch = PromptBatch(pa.RecordBatch.from_pydict({"n": numbers}), numbers, own)
            starts[id(batch)] = start
            yield batch

    counters.note(len(tuples), len(tuples))
    context = CallContext(
        binding, binding.in_flight.open(), [site], all_at_once(1), prompts_counted=False, errors=runtime.errors
    )
    done = CallExecutor(context).answer(batches(), runtime.cancelled)
    try:
        for batch in done:
            start, answers = starts.pop(id(batch)), batch.answers.get(0, [None] * len(batch.tuples))
            for place, answer in enumerate(answers):
                yield start + place, answer
    finally:
        done.close()


def _site(ai: AICall, binding: ModelBinding, runtime: Runtime, counters: CallRecord) -> CallSite:
    places = tuple(range(len(ai.fields)))
    first = runtime.settings.fields_first
    keys = binding.keys(ai, fields_first=first)
    arguments = tuple((place,) for place in places)
    site = CallSite(ai, arguments, places, None, None, keys, counters, first, binding.prompt_format)
    return alone(site)


def _as_sent(value: Value, lists: list[int]) -> Value:
    """Return a tuple whose lists have their elements in the order of the prompt."""
    if not lists:
        return value
    parts = list(value)
    for place in lists:
        text = parts[place]
        parts[place] = None if text is None else ELEMENT_END.join(sorted_elements(text))
    return tuple(parts)
