"""Ask the questions of a call over sets, as an AI operator asks: cache, budgets, repairs and cancelling included."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flightllm.errors import InternalError
from flightllm.functions.call import EMBEDDING, AICall
from flightllm.observe.query_record import CallRecord
from flightllm.operators.batches import PromptBatch
from flightllm.operators.call_context import CallContext, CallSite, ModelBinding, all_at_once
from flightllm.operators.call_executor import CallExecutor
from flightllm.operators.embedding_proxy import embedding_call
from flightllm.operators.rows import Response

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
    too_long: bool = False
    """True where the model's context has no room for the prompt: a shorter one can have an answer."""


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
        self._errors: dict[bytes, Response] = {}
        """The errors of prompts, by key; these are not sent again."""

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
        [replies] = self.ask_each([(question, prompts)])
        return replies

    def known(self, question: AICall, prompts: Sequence[Texts]) -> list[bool]:
        """Return for each prompt whether the answer cache has its answer; this asks nothing."""
        site = self.site(question)
        keys = [self._key(site, one) for one in prompts]
        known = self.binding(question).cache.peek(keys)
        return [key in known for key in keys]

    def ask_each(
        self, asked: Sequence[tuple[AICall, Sequence[Texts]]], *, spares_too_long: bool = False
    ) -> list[list[Reply]]:
        """Ask several questions of one model, each about its own tuples of values, all of them at once.

        The questions have equally many fields. With `spares_too_long`, a prompt that is too long for the model
        does not end the query: the caller asks again in parts.

        Raises:
            FlightLLMError: as `ask`.
        """
        distinct = list(
            dict.fromkeys((number, one) for number, (_, prompts) in enumerate(asked) for one in prompts)
        )  # equal prompts of one question
        if not distinct:
            return [[] for _ in asked]
        fails = self.call.on_error == "fail"
        questions = [replace(question, on_error="fail" if fails else "struct") for question, _ in asked]
        sites = [replace(self.site(one), spares_too_long=spares_too_long) for one in questions]
        keys = [self._key(sites[number], one) for number, one in distinct] if self.is_dry else []
        known = self.binding(questions[0]).cache.peek(keys) if keys else {}
        found: dict[tuple[int, Texts], Reply] = {}
        for first, values in self._answered(sites, distinct):
            for place, value in enumerate(values, start=first):
                number, one = distinct[place]
                found[number, one] = self._reply(
                    sites[number], one, value, predicted=bool(keys) and keys[place] not in known
                )
        return [[found[number, one] for one in prompts] for number, (_, prompts) in enumerate(asked)]

    def _reply(self, site: CallSite, prompt: Texts, value: Any, *, predicted: bool) -> Reply:
        error = None
        if site.ai.on_error != "fail" and value is not None:
            value, error = value["value"], value["error"]
        if value is not None or (error is None and not site.spares_too_long):
            return Reply(value, error, predicted)
        failed = self._errors.get(self._key(site, prompt))
        if failed is None or not failed.too_long:
            return Reply(None, error, predicted)
        return Reply(None, error or failed.error, predicted, too_long=True)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, one row each; a text without a vector has zeros.

        Raises:
            EngineError: the embedding model is gone.
            CancelledError: the query was cancelled.
        """
        call = replace(embedding_call(self.call), fields=("text",))
        vectors: list[Any] = [None] * len(texts)
        for first, values in self._answered([self.site(call)], [(0, (text,)) for text in texts]):
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

    def _key(self, site: CallSite, prompt: Texts) -> bytes:
        """Return the key of the answer to a prompt."""
        return site.keys.key(
            [(name, text) for name, text in zip(site.ai.fields, prompt, strict=True) if text is not None]
        )

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

    def _answered(
        self, sites: Sequence[CallSite], prompts: Sequence[tuple[int, Texts]]
    ) -> Iterator[tuple[int, Sequence[Any]]]:
        """Yield the answers to prompts in parts, each with the place of its first prompt.

        A prompt has the number of its site.
        """
        binding, fields = self.binding(sites[0].ai), len(sites[0].ai.fields)
        if len(sites) > 1:  # a boolean column says which rows ask a question
            sites = [replace(site, when=fields + number) for number, site in enumerate(sites)]
        places: dict[int, int] = {}

        def batches() -> Iterator[PromptBatch]:
            for first in range(0, len(prompts), _MOST_TUPLES):
                some = prompts[first : first + _MOST_TUPLES]
                flags = [[own == number for own, _ in some] for number in range(len(sites))] if len(sites) > 1 else []
                batch = PromptBatch.of_texts([one for _, one in some], flags)
                places[id(batch)] = first
                yield batch

        ranking = all_at_once(len(sites))
        context = CallContext(
            binding, binding.in_flight.open(), list(sites), ranking, prompts_counted=False, errors=self._errors
        )
        with closing(CallExecutor(context).answer(batches(), self.cancelled)) as done:
            for batch in done:
                first = places.pop(id(batch))
                numbers = [number for number, _ in prompts[first : first + len(batch.tuples)]]
                yield (
                    first,
                    [
                        batch.answers[number][place] if number in batch.answers else None
                        for place, number in enumerate(numbers)
                    ],
                )
