"""Ask the questions of a call over sets, as an AI operator asks: cache, budgets, repairs and cancelling included."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flightllm.errors import InternalError
from flightllm.functions.call import EMBEDDING, AICall
from flightllm.observe.query_record import CallRecord
from flightllm.operators.batches import PromptBatch
from flightllm.operators.call_context import CallContext, CallSite, ModelBinding, all_at_once
from flightllm.operators.call_executor import CallExecutor
from flightllm.operators.embedding_proxy import embedding_call

Texts: TypeAlias = tuple[str | None, ...]
"""The values of a question's fields in one prompt."""
_MOST_TUPLES: Final = 512
"""The most prompts of a batch, as in other operators."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a prompt: its value, or the error. Both are None where no prompt was needed."""

    value: Any
    error: str | None = None
    predicted: bool = False
    """True in a dry run where the answer is not known."""


class Asking(Protocol):
    """The parts of a query that an `Asker` needs, such as its `Runtime`."""

    @property
    def bindings(self) -> Mapping[str, ModelBinding]:
        """Return the models that answer calls, by `AICall.binding`."""

    @property
    def cancelled(self) -> Callable[[], bool]:
        """Return the function that says whether the query was cancelled."""

    @property
    def warn(self) -> Callable[[str], None]:
        """Return the function that gets what the query's result lacks."""

    def proxy_counters(self, operator: str, call: AICall, binding: str) -> CallRecord:
        """Return the call site of a proxy, which is beside the call site of the call itself."""


class Asker:
    """Asks the questions of one call over sets. One thread uses it.

    Replies come in the order of the prompts. Equal prompts are sent once. In a dry run, the replies are predictions.
    """

    def __init__(self, call: AICall, runtime: Asking, counters: CallRecord) -> None:
        """`counters` is the call site; the figures of all questions add up there."""
        self.call = call
        self.runtime = runtime
        self.counters = counters

    def binding(self, question: AICall) -> ModelBinding:
        """Return the model that answers a question."""
        return self.runtime.bindings[EMBEDDING if question.backend == EMBEDDING else question.binding]

    @property
    def is_dry(self) -> bool:
        """Return whether replies are predictions."""
        return any(self.binding(one).asked_share is not None for one in self._questions)

    @property
    def cancelled(self) -> Callable[[], bool]:
        """Return the function that says whether the query was cancelled."""
        return self.runtime.cancelled

    def ask(self, question: AICall, prompts: Sequence[Texts]) -> list[Reply]:
        """Ask one question about each tuple of values, all of them at once.

        Raises:
            AnswerError: a prompt failed and the call says `on_error => 'fail'`.
            BudgetExceededError: the budget is spent, and the session wants the query to fail then.
            EngineError: the engine is gone.
            CancelledError: the query was cancelled.
            UnansweredError: a deferred statement gets the answers in a later pass.
        """
        if not prompts:
            return []
        fails = self.call.on_error == "fail"
        own = replace(question, on_error="fail" if fails else "struct")
        distinct = list(dict.fromkeys(prompts))
        known = self._known(own, distinct) if self.is_dry else None
        found: dict[Texts, Reply] = {}
        for first, values in self._answered(own, distinct):
            for place, value in enumerate(values, start=first):
                predicted = known is not None and not known[place]
                if fails or value is None:
                    found[distinct[place]] = Reply(value, predicted=predicted)
                else:
                    found[distinct[place]] = Reply(value["value"], value["error"], predicted)
        return [found[one] for one in prompts]

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, one row each; a text without a vector has zeros.

        Raises:
            EngineError: the embedding model is gone.
            CancelledError: the query was cancelled.
        """
        call = replace(embedding_call(self.call), fields=("text",))
        vectors: list[Any] = [None] * len(texts)
        for first, values in self._answered(call, [(text,) for text in texts]):
            for place, value in enumerate(values, start=first):
                vectors[place] = None if value is None else value["value"]
        width = next((len(vector) for vector in vectors if vector is not None), 1)
        found = np.zeros((len(texts), width), np.float32)
        for place, vector in enumerate(vectors):
            if vector is not None:
                found[place] = vector
        return found

    @property
    def _questions(self) -> Sequence[AICall]:
        if self.call.over is None:
            raise InternalError(f"{self.call.text} is not over a set")
        return tuple(self.call.over.questions.values())

    def _known(self, question: AICall, prompts: Sequence[Texts]) -> list[bool]:
        """Return for each prompt whether its answer is known before anything is asked."""
        binding = self.binding(question)
        keys, names = binding.keys(question, fields_first=False), question.fields
        given = ([(name, text) for name, text in zip(names, one, strict=True) if text is not None] for one in prompts)
        listed = [keys.key(fields) for fields in given]
        known = binding.cache.peek(listed)
        return [key in known for key in listed]

    def site(self, question: AICall) -> CallSite:
        """Return the call site of a question, whose tuples are the values of its fields."""
        fields, binding = range(len(question.fields)), self.binding(question)
        return CallSite(
            question,
            tuple((field,) for field in fields),
            tuple(fields),
            None,
            None,
            binding.keys(question, fields_first=False),
            self.counters,
            prompt_format=binding.prompt_format,
            asks_example=True,
        )

    def _answered(self, question: AICall, prompts: Sequence[Texts]) -> Iterator[tuple[int, Sequence[Any]]]:
        """Yield the answers to prompts in parts, each with the place of its first prompt."""
        site, binding = self.site(question), self.binding(question)
        fields = range(len(question.fields))
        places: dict[int, int] = {}

        def batches() -> Iterator[PromptBatch]:
            for first in range(0, len(prompts), _MOST_TUPLES):
                some = list(prompts[first : first + _MOST_TUPLES])
                columns = [pa.array(values, pa.string()) for values in zip(*some, strict=True)]
                rows = pa.RecordBatch.from_arrays(columns, [str(field) for field in fields])
                batch = PromptBatch(rows, np.arange(len(some)), some)
                places[id(batch)] = first
                yield batch

        context = CallContext(binding, binding.in_flight.open(), [site], all_at_once(1), prompts_counted=False)
        with closing(CallExecutor(context).answer(batches(), self.cancelled)) as done:
            for batch in done:
                yield places.pop(id(batch)), batch.answers.get(0, [None] * len(batch.tuples))
