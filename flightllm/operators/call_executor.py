"""Answer the prompt batches of one pass: known answers from the cache, all others from the engine."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import cast

from flightllm.errors import CancelledError, InternalError
from flightllm.llm.engine import Completion, Request
from flightllm.operators.batch_window import BatchWindow
from flightllm.operators.batches import PromptBatch
from flightllm.operators.call_context import CallContext, CallSite
from flightllm.operators.pending_prompt import OpenBatch, PendingPrompt, write_answer
from flightllm.operators.prompt_lister import PromptLister
from flightllm.operators.prompt_registry import Lookup, PromptRegistry
from flightllm.operators.prompt_sender import Answered, PromptSender
from flightllm.operators.ranking import Ranking
from flightllm.operators.step_order import StepOrder
from flightllm.plan.stages import BoundStep


class CallExecutor:
    """Drive the engine over the batches of one pass, step by step. One thread uses it.

    Each part has a class of its own: `BatchWindow` opens batches, `StepOrder` chooses their steps, `PromptLister` lists
    the prompts of a step, `PromptRegistry` finds known answers, and `PromptSender` sends the other prompts.

    Example: `ai_filter('Is it red?', t)` over the rows `rose`, `rose` and `sky`, with `sky` in the answer cache. The
    batch opens with the tuples `rose` and `sky`. The lister makes two prompts, and the registry answers that of `sky`.
    The sender sends that of `rose`. Its answer goes into the batch, which has no further step and is yielded.
    """

    def __init__(
        self, context: CallContext, sites: Sequence[CallSite], steps: Sequence[BoundStep], ranking: Ranking
    ) -> None:
        self._context = context
        self._binding = context.binding
        self._sites = tuple(sites)
        self._ranking = ranking
        self._lister = PromptLister(context, self._sites)
        self._steps = StepOrder(steps, ranking, context, self._lister)
        self._registry = PromptRegistry(context, self._sites)
        self._sender = PromptSender(self._binding, self._sites, len(steps), ranking)

    def answer(
        self, batches: Iterator[PromptBatch], cancelled: Callable[[], bool]
    ) -> Generator[PromptBatch, None, None]:
        """Yield each batch once all of its answers are there, not always in order.

        Raises:
            EngineError: the engine is gone, or a prompt failed whose call says `on_error => 'fail'`.
            BudgetExceededError: the budget is spent, and the session wants the query to fail then.
            CancelledError: `cancelled()` turned true.
        """
        leases, engine = self._context.leases, self._binding.engine
        prompts_in_flight = self._binding.window * self._binding.replicas
        window = BatchWindow(batches, prompts_in_flight, self._context.tracker, self._ranking)
        alive = leases.heartbeat(cancelled)
        try:
            while not window.is_done:
                if alive():
                    raise CancelledError("the query was cancelled")
                leases.busy = True
                stream = engine.generate(self._requests(window), alive)
                with closing(cast("Generator[Completion, None, None]", stream)) as completions:
                    for completion in completions:
                        answered = self._sender.receive(completion)
                        if answered is not None:
                            self._take_answer(answered, window)
                        yield from self._finished(window)
                if self._sender.sent:
                    raise InternalError(f"{engine.name} left {self._sender.sent} prompts without an answer")
                yield from self._finished(window)
        finally:
            self._sender.abandon()
            leases.close()
            self._binding.cache.flush()

    def _finished(self, window: BatchWindow) -> Iterator[PromptBatch]:
        """Yield the finished batches."""
        while window.has_finished:
            batch = window.take_finished()
            self._binding.cache.flush()  # a crash must not lose an answer that a client has seen
            self._context.leases.busy = False  # the consumer can take long, and other queries must not wait for it
            yield batch
            self._context.leases.busy = True
            self._context.tracker.add_trials(len(batch.tuples))

    def _requests(self, window: BatchWindow) -> Iterator[Request | None]:
        """Yield the requests for the engine; None while the next one waits for an answer.

        The iterator ends when finished batches can be yielded and no answer is awaited. `answer` then starts it again.
        """
        while True:
            if self._registry.waits_for_others:
                self._take_shared_answers(window)
            request = self._next_request(window)
            if request is not None:
                yield request
            elif not self._sender.has_ready and window.can_open():
                open_batch = window.open_next()
                if open_batch is not None:
                    self._advance(open_batch, window)
            elif self._sender.sent or (self._registry.waits_for_others and not window.has_finished):
                yield None
            else:
                return

    def _next_request(self, window: BatchWindow) -> Request | None:
        """Return the next request; None if no prompt is ready now."""
        while (found := self._sender.next()) is not None:
            if isinstance(found, Request):
                return found
            self._take_answer(found, window)
        return None

    def _advance(self, open_batch: OpenBatch, window: BatchWindow) -> None:
        """Go on with a batch until it waits for an answer or is finished."""
        while not open_batch.pending:
            if open_batch.rounds:
                self._ask(open_batch, open_batch.rounds.pop(0))
            elif not self._steps.begin_next(open_batch):
                window.finish(open_batch)
                return

    def _ask(self, open_batch: OpenBatch, calls: Sequence[int]) -> None:
        """Fill in the known answers of calls, and make the other prompts ready."""
        wanted = [self._lister.pending(open_batch, call) for call in calls]
        lookup = self._registry.look_up([prompt.key for prompts in wanted for prompt in prompts])
        to_send: list[PendingPrompt] = []
        for call, prompts in zip(calls, wanted, strict=True):
            open_batch.batch.answers.setdefault(call, [None] * len(open_batch.batch.tuples))
            open_batch.pending += len(prompts)
            to_send += [prompt for prompt in prompts if self._must_send(prompt, lookup)]
        if self._sites[calls[0]].fields_first:  # the calls of one tuple share a prefix, so they go together
            to_send.sort(key=lambda prompt: prompt.slots[0].tuple_index)
        if self._steps.is_first_round(open_batch, calls):
            self._sender.send_last(to_send)
        else:  # the engine still has the prefixes of these prompts, which an earlier round sent
            self._sender.send_first(to_send)

    def _must_send(self, prompt: PendingPrompt, lookup: Lookup) -> bool:
        """Write the answer of a prompt if it is known; otherwise return whether this pass sends the prompt."""
        reading = self._registry.answer(prompt, lookup)
        if reading is None:
            return self._registry.must_send(prompt, lookup)
        write_answer(prompt, reading, self._sites)
        return False

    def _take_answer(self, answered: Answered, window: BatchWindow) -> None:
        """Record and write an answer, and go on with the batches that waited for it."""
        self._registry.record(answered.prompt, answered.said, answered.reading)
        write_answer(answered.prompt, answered.reading, self._sites, answered.said)
        self._advance_all(answered.prompt, window)

    def _take_shared_answers(self, window: BatchWindow) -> None:
        """Write the answers that other queries brought; send the prompts for which they brought none."""
        for prompt, reading in self._registry.shared_answers():
            if reading is not None:
                write_answer(prompt, reading, self._sites)
            elif self._must_send(prompt, self._registry.look_up([prompt.key])):
                self._sender.send_first([prompt])
            self._advance_all(prompt, window)

    def _advance_all(self, prompt: PendingPrompt, window: BatchWindow) -> None:
        for slot in prompt.slots:
            open_batch = slot.open_batch
            if not open_batch.pending and not open_batch.finished:
                self._advance(open_batch, window)
