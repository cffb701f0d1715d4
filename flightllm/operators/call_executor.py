"""Answer the prompt batches of one pass: known answers from the cache, all others from the engine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Final, cast

from flightllm.engines.extras import extras_of
from flightllm.errors import EngineError, InternalError, UnansweredError, check_cancelled
from flightllm.llm.engine import Completion, Request
from flightllm.operators.batches import PromptBatch
from flightllm.operators.cache import AnswerCache
from flightllm.operators.call_context import CallContext, LimitTracker, Ranking
from flightllm.operators.prompt_sender import PromptSender
from flightllm.operators.prompts import (
    Answered,
    Lookup,
    OpenBatch,
    PendingPrompt,
    PromptLister,
    PromptRegistry,
    write_answer,
)
from flightllm.operators.question_joiner import QuestionJoiner
from flightllm.operators.question_packs import QuestionPacker
from flightllm.operators.question_plan import QuestionPlan

_MOST_FINISHED: Final = 8
"""Finished batches that can wait for the consumer. Without this limit, cached answers would fill the memory."""
_LATER: Final = "the answers come to a later pass of the deferred statement"
_MOST_TUPLES: Final = 4_096
_MOST_WINDOWS: Final = 4
"""The most open distinct tuples: `_MOST_TUPLES`, or `_MOST_WINDOWS` times the engine's window if that is more."""
_MOST_BYTES: Final = 64 << 20
_FEWEST_WINDOWS: Final = 2
"""Above `_MOST_BYTES`, a batch opens only if fewer than `_FEWEST_WINDOWS` windows of tuples are open. A batch with
further rows of an open tuple has no new prompts, and does not open then."""


class CallExecutor:
    """Drive the engine over the batches of one pass, step by step. One thread uses it.

    Each part has a class of its own: `BatchWindow` opens batches, `StepOrder` chooses their steps, `PromptLister` lists
    the prompts of a step, `PromptRegistry` finds known answers, and `PromptSender` sends the other prompts.

    Example: `ai_filter('Is it red?', t)` over the rows `rose`, `rose` and `sky`, with `sky` in the answer cache. The
    batch opens with the tuples `rose` and `sky`. The lister makes two prompts, and the registry answers that of `sky`.
    The sender sends that of `rose`. Its answer goes into the batch, which has no further step and is yielded.
    """

    def __init__(self, context: CallContext, questions: Sequence[QuestionPlan] = ()) -> None:
        """`questions` says how calls over the same fields share requests."""
        self._context = context
        self._binding = context.binding
        self._sites = context.sites
        self._lister = PromptLister(
            context.sites, context.conditions, dedup=context.dedup, prompts_counted=context.prompts_counted
        )
        self._steps = StepOrder(context, self._lister)
        self._registry = PromptRegistry(context)
        self._sender = PromptSender(context)
        self._joiner: QuestionJoiner | None = None
        if questions:
            packer = self._sender.questions = QuestionPacker(context.sites, context.binding.engine)
            self._joiner = QuestionJoiner(context, questions, self._lister, self._registry, packer)
        self._unprepared = {call for call, site in enumerate(context.sites) if site.unprepared}
        """The calls that must be prepared before their first prompt."""
        self._held: list[tuple[OpenBatch, Sequence[int]]] = []
        """The calls of batches that wait for this."""
        self._left_any = False
        """Whether the answers of any prompts come to a later pass."""
        self._answers = 0
        """How many prompts have an answer of this pass."""

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
        window = BatchWindow(batches, prompts_in_flight, self._context.tracker, self._context.ranking)
        alive = leases.heartbeat(cancelled)
        try:
            while not window.is_done:
                check_cancelled(alive)
                leases.busy = True
                stream = engine.generate(self._requests(window), alive)
                with closing(cast("Generator[Completion, None, None]", stream)) as completions:
                    for completion in completions:
                        found = self._sender.receive(completion)
                        self._forget_dropped()
                        for answered in found:
                            self._take_answer(answered, window)
                        if window.has_finished:
                            yield from self._finished(window)
                if self._binding.collects:
                    yield from self._finished(window)
                    self._leave(window)
                if self._sender.sent:
                    raise InternalError(f"{engine.name} left {self._sender.sent} prompts without an answer")
                self._prepare(window, alive)
                yield from self._finished(window)
            if self._left_any:
                raise UnansweredError(_LATER)
        except EngineError as error:
            error.args = (f"{error}{self._kept()}",)
            raise
        finally:
            self._sender.abandon()
            leases.close()
            self._binding.cache.flush()

    def _leave(self, window: BatchWindow) -> None:
        """Close the batches whose answers come to a later pass.

        Raises:
            UnansweredError: no further prompt can be listed in this pass.
        """
        for prompt in self._sender.leave():
            self._left_any = True
            prompt.slots, prompt.fields = [], []  # their rows must not stay in memory
        held = {id(open_batch) for open_batch, _ in self._held}
        closed = window.give_up(lambda open_batch: id(open_batch) not in held)
        # Under a LIMIT, the answers decide how many more prompts are needed.
        if self._left_any and not held and (self._context.tracker.limited or not closed) and not window.moved:
            raise UnansweredError(_LATER)
        window.moved = False

    def _kept(self) -> str:
        """Return the end of the error about a lost engine: how many answers came before."""
        if not self._answers:
            return ""
        are = "is" if self._answers == 1 else "are"
        keeps = isinstance(self._binding.cache, AnswerCache)
        kept = f" and {are} kept: send the statement again to go on" if keeps else ""
        answers = "1 answer" if self._answers == 1 else f"{self._answers:,} answers"
        return f"; {answers} came before{kept}"

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
            grows = self._sender.packs and not self._held and window.can_open()
            request = self._next_request(window, grows=grows)
            if request is not None:
                yield request
            elif self._held and not self._sender.sent:
                return  # `answer` prepares their calls, because an engine must not be asked while it pulls
            elif grows or (not self._held and not self._sender.has_ready and window.can_open()):
                open_batch = window.open_next()
                if open_batch is not None:
                    self._advance(open_batch, window)
            elif self._sender.sent or (self._registry.waits_for_others and not window.has_finished):
                yield None
            else:
                return

    def _next_request(self, window: BatchWindow, *, grows: bool) -> Request | None:
        """Return the next request; None if no prompt is ready now, or if a pack of rows can still grow."""
        while (found := self._sender.next(grows=grows)) is not None:
            self._forget_dropped()
            if isinstance(found, Request):
                return found
            self._take_answer(found, window)
        self._forget_dropped()
        return None

    def _forget_dropped(self) -> None:
        """Forget the prompts that were joined for a later step and cannot be sent with others."""
        while self._sender.dropped:
            self._registry.drop(self._sender.dropped.pop())

    def _advance(self, open_batch: OpenBatch, window: BatchWindow) -> None:
        """Go on with a batch until it waits for an answer or is finished."""
        while not open_batch.pending:
            if open_batch.rounds:
                self._ask(open_batch, open_batch.rounds.pop(0))
            elif not self._steps.begin_next(open_batch):
                window.finish(open_batch)
                return

    def _ask(self, open_batch: OpenBatch, calls: Sequence[int]) -> None:
        """List the prompts of calls, unless a call with prompts must be prepared first."""
        batch = open_batch.batch
        if any(call in self._unprepared and self._lister.keys(batch, call) for call in calls):
            self._held.append((open_batch, calls))
            open_batch.pending += 1  # the batch must wait
            return
        wanted = [self._lister.pending(open_batch, call) for call in calls]
        for call, prompts in zip(calls, wanted, strict=True):
            batch.answers.setdefault(call, [None] * len(batch.tuples))
            open_batch.pending += len(prompts)
        self._look_up(open_batch, calls, wanted)

    def _prepare(self, window: BatchWindow, cancelled: Callable[[], bool]) -> None:
        """Prepare the calls of the batches that wait for this, and go on with these batches."""
        held, self._held = self._held, []
        for open_batch, calls in held:
            for call in self._unprepared.intersection(calls):
                if self._lister.keys(open_batch.batch, call):
                    self._unprepared.discard(call)
                    self._sites[call] = self._sites[call].prepared(self._binding, cancelled)
                    self._sender.renew(call)
        for open_batch, calls in held:
            open_batch.pending -= 1
            self._ask(open_batch, calls)
            if not open_batch.finished:
                self._advance(open_batch, window)

    def _look_up(self, open_batch: OpenBatch, calls: Sequence[int], wanted: Sequence[list[PendingPrompt]]) -> None:
        """Fill in the known answers of prompts, and make the others ready."""
        lookup = self._registry.look_up([prompt.key for prompts in wanted for prompt in prompts])
        to_send: list[PendingPrompt] = []
        for prompts in wanted:
            if self._registry.knows_none(lookup):
                to_send += self._registry.all_to_send(prompts, lookup)
            else:
                to_send += [prompt for prompt in prompts if self._must_send(prompt, lookup)]
        joins = extras_of(self._binding.engine).joins_questions
        if joins or self._sites[calls[0]].fields_first:  # the calls of one tuple share a prefix, so they go together
            to_send.sort(key=lambda prompt: prompt.slots[0].tuple_index)
        if self._joiner is not None:
            to_send = self._joiner.joined(open_batch, to_send)
        if to_send and self._sender.counts_starts and not any(prompt.joined for prompt in to_send):
            self._expect_next(open_batch, calls)
        if self._steps.is_first_round(open_batch, calls):
            self._sender.send_last(to_send)
        else:  # the engine still has the prefixes of these prompts, which an earlier round sent
            self._sender.send_first(to_send)

    def _expect_next(self, open_batch: OpenBatch, calls: Sequence[int]) -> None:
        """Count the prompts after a batch, which can share a start with the last prompts of the batch."""
        if self._context.tracker.limited:
            return  # the next batch can remain unsent
        for call in calls:
            site = self._sites[call]
            found = self._lister.following(open_batch.batch, call) if site.when is None and site.guard is None else None
            if found is not None and not self._binding.cache.get([found[1]]):
                self._sender.expect(call, found[0])

    def _must_send(self, prompt: PendingPrompt, lookup: Lookup) -> bool:
        """Write the answer of a prompt if it is known; otherwise return whether this pass sends the prompt."""
        answered = self._registry.answer(prompt, lookup)
        if answered is None:
            return self._registry.must_send(prompt, lookup)
        write_answer(answered, self._sites)
        return False

    def _take_answer(self, answered: Answered, window: BatchWindow) -> None:
        """Record and write an answer, and go on with the batches that waited for it."""
        self._answers += answered.reading.failure is None
        self._registry.record(answered)
        write_answer(answered, self._sites)
        self._advance_all(answered.prompt, window)

    def _take_shared_answers(self, window: BatchWindow) -> None:
        """Write the answers that other queries brought; send the prompts for which they brought none."""
        for prompt, answered in self._registry.shared_answers():
            if answered is not None:
                write_answer(answered, self._sites)
            elif self._must_send(prompt, self._registry.look_up([prompt.key])):
                self._sender.send_first([prompt])
            self._advance_all(prompt, window)

    def _advance_all(self, prompt: PendingPrompt, window: BatchWindow) -> None:
        for slot in prompt.slots:
            open_batch = slot.open_batch
            if not open_batch.pending and not open_batch.finished:
                self._advance(open_batch, window)


class BatchWindow:
    """Open the next batch while the limits allow it, and keep finished batches for the consumer. One thread uses it.

    `window` is the number of prompts that the engine keeps in flight on all replicas. Example with a window of 8: a
    batch of 512 tuples opens as long as fewer than 4,096 tuples are open.
    """

    def __init__(self, batches: Iterator[PromptBatch], window: int, tracker: LimitTracker, ranking: Ranking) -> None:
        self._batches = batches
        self._window = window
        self._tracker = tracker
        self._ranking = ranking
        self._open = self._open_tuples = self._open_bytes = 0
        self._finished: deque[PromptBatch] = deque()
        self._any_finished = False
        self._goes_on = False
        """Whether the next batch has further rows of the last opened tuple."""
        self._exhausted = False
        self._opened: dict[int, OpenBatch] = {}
        self.moved = False
        """Whether a batch has finished since a pass of a deferred statement last looked."""

    @property
    def is_done(self) -> bool:
        """Return whether every batch was opened, finished and taken."""
        return self._exhausted and not self._open and not self._finished

    @property
    def has_finished(self) -> bool:
        """Return whether a finished batch waits for the consumer."""
        return bool(self._finished)

    def can_open(self) -> bool:
        """Return whether to open another batch now."""
        if self._exhausted or len(self._finished) >= _MOST_FINISHED:
            return False
        # Under a LIMIT, the consumer must see what is finished before the tracker can say how many more it needs.
        if self._tracker.limited and (self._finished or not self._tracker.trials_needed(self._open_tuples)):
            return False
        if self._ranking.learns and self._open and not self._any_finished:
            return False  # the first batch shows which filter to try first
        fewest = 0 if self._goes_on else _FEWEST_WINDOWS * self._window
        if self._open_bytes >= _MOST_BYTES and self._open_tuples >= fewest:
            return False
        return self._open_tuples < max(_MOST_TUPLES, _MOST_WINDOWS * self._window)

    def open_next(self) -> OpenBatch | None:
        """Open the next batch; None after the last one."""
        batch = next(self._batches, None)
        if batch is None:
            self._exhausted = True
            return None
        self._goes_on = batch.goes_on
        self._open += 1
        self._open_tuples += len(batch.tuples)
        self._open_bytes += batch.rows.nbytes
        opened = OpenBatch(batch)
        self._opened[id(opened)] = opened
        return opened

    def finish(self, open_batch: OpenBatch) -> None:
        """Close a batch that went through all steps, and keep it for the consumer."""
        batch = open_batch.batch
        open_batch.finished = self._any_finished = True
        self._open -= 1
        del self._opened[id(open_batch)]
        self._open_tuples -= len(batch.tuples)
        self._open_bytes -= batch.rows.nbytes
        self._finished.append(batch)
        self.moved = True

    def give_up(self, test: Callable[[OpenBatch], bool]) -> int:
        """Close the open batches for which `test` is true: the consumer does not get them. Return their number."""
        given_up, moved = [one for one in self._opened.values() if test(one)], self.moved
        for open_batch in given_up:
            self.finish(open_batch)
            self._finished.pop()
        self.moved = moved
        return len(given_up)

    def take_finished(self) -> PromptBatch:
        """Return the batch that finished first, and forget it."""
        return self._finished.popleft()


class StepOrder:
    """Begin and end the steps of a batch. One thread uses it.

    Example: `WHERE ai_filter('a', t) AND ai_filter('b', t)` has two steps, each of one call and a condition. A batch
    begins the step that ranks first, drops the rows for which its condition is false, and then begins the other.
    """

    def __init__(self, context: CallContext, lister: PromptLister) -> None:
        self._ranking = context.ranking
        self._steps = context.ranking.steps
        self._conditions = context.conditions
        self._cache = context.answers
        self._dedup = context.dedup
        self._lister = lister

    def begin_next(self, open_batch: OpenBatch) -> bool:
        """End the batch's step and begin the next one; return whether there is a next step."""
        if open_batch.step is not None:
            self._drop_rows(open_batch, open_batch.step)
        step = open_batch.step = self._next(open_batch)
        if step is None:
            return False
        open_batch.begun.add(step)
        open_batch.rounds = list(self._steps[step].rounds)
        return True

    def is_first_round(self, open_batch: OpenBatch, calls: Sequence[int]) -> bool:
        """Return whether `calls` are all calls of the batch's first step."""
        of_step = sum(map(len, self._steps[open_batch.step or 0].rounds))
        return len(open_batch.begun) <= 1 and len(calls) >= of_step

    def _next(self, open_batch: OpenBatch) -> int | None:
        """Return the best step that can begin. A filter whose answers are all known costs nothing, so it goes first."""
        steps = self._ranking.next(open_batch.begun)
        filters = [step for step in steps if self._steps[step].condition is not None]
        if len(filters) > 1 and self._dedup:
            for step in filters:
                calls = [call for round_ in self._steps[step].rounds for call in round_]
                keys = [key for call in calls for key in self._lister.keys(open_batch.batch, call)]
                if len(self._cache.peek(keys)) == len(set(keys)):
                    return step
        return steps[0] if steps else None

    def _drop_rows(self, open_batch: OpenBatch, step: int) -> None:
        """Drop the rows for which the condition of a step is not true."""
        condition, batch = self._steps[step].condition, open_batch.batch
        if condition is None or self._conditions is None:
            return
        before = batch.kept
        batch.keep(self._conditions.true(condition, batch))
        self._ranking.filtered(step, before, batch.kept)
