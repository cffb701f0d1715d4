"""Send the prompts of one pass within the budget, receive the answers, and ask again if an answer is unusable.

`PrefixOverlap` counts the characters that each prompt shares with the one before it. `Trace` logs prompts and answers.
"""

import logging
from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from math import ceil
from secrets import token_hex
from typing import Any

import structlog

from flightllm.common.cached import cached_property
from flightllm.common.text import shared_start
from flightllm.engines.extras import extras_of
from flightllm.llm.cost import Work
from flightllm.llm.engine import Completion, Dispatch, Parameters, Request, Reuse, call_site
from flightllm.operators.budget import RequestBudget, Reservation
from flightllm.operators.call_context import CallContext, CallSite
from flightllm.operators.label_budget import UNPAID
from flightllm.operators.pack_keys import alone_key
from flightllm.operators.prompts import Answered, Fields, PendingPrompt
from flightllm.operators.question_packs import QuestionPacker
from flightllm.operators.repair import repair_prompt, repaired
from flightllm.operators.row_packs import Pack, Packer
from flightllm.operators.rows import AnswerReader, Counters, Reading, Response, read_answer
from flightllm.operators.shared_starts import SharedStarts


@dataclass(frozen=True, slots=True)
class Tries:
    """The tries of one request. The engine calls the methods, in any thread."""

    dispatch: Dispatch
    budget: RequestBudget | None
    reservation: Reservation | None
    counters: Counters

    def follow(self) -> None:
        """Let the engine ask before each try."""
        self.dispatch.admit, self.dispatch.retract = self.admit, self.retract

    def admit(self, answer: int) -> str | None:
        """Reserve and count the coming try; see `Dispatch.admit`."""
        again, refusal = self.dispatch.sent, None
        if self.budget is not None and self.reservation is not None:
            refusal = self.budget.admit(self.reservation, answer, again=again, billed=again and self.dispatch.billed)
        if refusal is None and again:
            self.counters.sent(repair=False)
        return refusal

    def retract(self) -> None:
        """Take back the last try, which does not leave; see `Dispatch.retract`."""
        if self.budget is not None and self.reservation is not None:
            self.budget.retract(self.reservation)
        if self.dispatch.sent:
            self.counters.add(calls=-1)


@dataclass(frozen=True, slots=True)
class SentPack:
    """A pack that the engine has, and what is reserved for its request."""

    pack: Pack
    reservation: Reservation | None
    dispatch: Dispatch


class PromptSender:
    """Hold the prompts that are ready, and those that the engine has. One thread uses it.

    A prompt goes from ready to sent to answered. It goes back to ready once, if the answer has the wrong form.
    """

    def __init__(self, context: CallContext) -> None:
        self._binding = context.binding
        self._sites = context.sites
        self._ranking = context.ranking
        self._requests = RequestMaker(context)
        self._readers = [AnswerReader(site.ai) for site in context.sites]
        self._ready: deque[PendingPrompt] = deque()
        self._sent: dict[int, PendingPrompt] = {}
        """The prompts that the engine has, by request id."""
        self._packs: dict[int, SentPack] = {}
        """The packs of prompts that the engine has, by request id."""
        self.packs = any(site.packs for site in context.sites) and not context.binding.collects
        """Whether prompts can share requests."""
        self.questions: QuestionPacker | None = None
        """Writes the requests of joined prompts; None if no prompts are joined."""
        self.dropped: list[PendingPrompt] = []
        """The prompts that no row needs, and that will not be sent; the caller takes them."""
        self._left: list[PendingPrompt] = []
        """The prompts whose answers come to a later pass of a deferred statement."""
        self._trace = Trace()

    @cached_property
    def _packer(self) -> Packer:
        """Return the packer of rows, which most passes do not need."""
        return Packer(self._sites, self._binding.engine)

    def renew(self, call: int) -> None:
        """Take note that a call, which has sent no prompt yet, has another site."""
        site = self._sites[call]
        self._readers[call] = AnswerReader(site.ai)
        self._requests.names[call] = call_site(site.ai.function, site.ai.instruction)

    @property
    def has_ready(self) -> bool:
        """Return whether a prompt is ready to be sent."""
        return bool(self._ready) or (self.packs and self._packer.has_ready)

    @property
    def sent(self) -> int:
        """Return the number of requests that the engine has."""
        return len(self._sent) + len(self._packs)

    def send_first(self, prompts: Sequence[PendingPrompt]) -> None:
        """Put prompts before all that are ready."""
        self._requests.count(prompts, self.questions)
        self._ready.extendleft(reversed(prompts))

    def send_last(self, prompts: Sequence[PendingPrompt]) -> None:
        """Put prompts after all that are ready."""
        self._requests.count(prompts, self.questions)
        self._ready.extend(prompts)

    @property
    def counts_starts(self) -> bool:
        """Return whether the engine needs to know which starts prompts share."""
        return self._requests.starts is not None

    def expect(self, call: int, fields: Fields) -> None:
        """Count a prompt that will probably be sent after all that are ready."""
        self._requests.expect(call, fields)

    def next(self, *, grows: bool = False) -> Request | Answered | None:
        """Return the next request, or a prompt that a budget refuses: the query's with the failure, or that of labels.

        Return None if no prompt is ready, or if the budget allows no prompt before an answer comes. With `grows`,
        further prompts can become ready without an answer: a pack that is not full then waits for them.

        Raises:
            BudgetExceededError: the budget is spent, and the session wants the query to fail then.
        """
        if self._ready and self._ready[0].joined and not (self.packs and self._packer.has_ready):
            return self._next_joined(self._ready[0], grows=grows)
        if self.packs:
            return self._next_packed(grows=grows)
        return self._next_alone(self._ready[0]) if self._ready else None

    def _next_packed(self, *, grows: bool) -> Request | Answered | None:
        """Return what `next` does, for prompts that can share requests."""
        group = self._packer.group(self._ready, grows=grows)
        if len(group) < 2:
            return self._next_alone(group[0]) if group else None
        pack, budget = self._packer.pack(group), self._binding.budget
        request, reservation = self._requests.make_pack(pack, self._packer.following(group, self._ready)), None
        if budget is not None:
            reservation = budget.take(request, waits=bool(self.sent or self._left), probe=True)
            if reservation is None:
                if self.sent and budget.refusal is None:
                    return None
                self._packer.take(group, self._ready)
                self._packer.halve(group)  # a smaller request can be within the budget
                return self._next_packed(grows=grows)
        self._packer.take(group, self._ready)
        sent = SentPack(pack, reservation, request.dispatch)
        self._packs[request.id] = sent
        for prompt in group:
            prompt.max_tokens = request.limit
            self._requests.sent(prompt, packed=True)
        self._requests.sent_pack(request)
        self._count_sent(request, sent, group[0])
        return request

    def _next_joined(self, prompt: PendingPrompt, *, grows: bool) -> Request | Answered | None:
        """Return what `next` does, for a prompt whose request has other questions too."""
        budget, group = self._binding.budget, (prompt, *prompt.joined)
        if self.questions is None or self.questions.gave_up(frozenset(one.call for one in group)):
            self._part(prompt)
            return self.next(grows=grows)
        pack = self._requests.joined(self.questions, prompt)
        following = self._ready[1] if len(self._ready) > 1 else None
        request, reservation = self._requests.make_joined(self.questions, pack, following), None
        if budget is not None:
            reservation = budget.take(request, waits=bool(self.sent or self._left), probe=True)
            if reservation is None:
                if self.sent and budget.refusal is None:
                    return None
                self._part(prompt)  # a smaller request can be within the budget
                return self.next(grows=grows)
        self._ready.popleft()
        sent = SentPack(pack, reservation, request.dispatch)
        self._packs[request.id] = sent
        for one in group:
            one.max_tokens = request.limit
        self._requests.sent_joined(pack)
        self._count_sent(request, sent, prompt)
        return request

    def _part(self, prompt: PendingPrompt) -> None:
        """Ask the questions of the next request apart. Questions that no row needs are not asked."""
        group = (prompt, *prompt.joined)
        if self.questions is not None:
            self._requests.sent_joined(self._requests.joined(self.questions, prompt))
        self._ready.popleft()
        self._ask_apart(group)

    def _ask_apart(self, group: Sequence[PendingPrompt]) -> None:
        """Ask each of some questions by itself, unless no row needs it."""
        for one in group:
            one.joined, one.alone = (), True
        self.dropped += [one for one in group if not one.slots]
        self.send_first([one for one in group if one.slots])

    def _next_alone(self, prompt: PendingPrompt) -> Request | Answered | None:
        """Return what `next` does, for the prompt that is the next one by itself."""
        budget = self._binding.budget
        if not self._is_paid(prompt):
            self._take(prompt)
            return Answered(prompt, UNPAID, Reading(None))
        request = self._requests.make(prompt, next((one for one in islice(self._ready, 2) if one is not prompt), None))
        if budget is not None:
            prompt.reservation = budget.take(request, waits=bool(self.sent or self._left))
            if prompt.reservation is None:
                if budget.refusal is None:
                    return None
                self._take(prompt)
                return self._refused(prompt, Response(None, budget.refusal))
        self._take(prompt)
        self._requests.sent(prompt)
        self._sent[request.id] = prompt
        prompt.max_tokens = request.limit
        prompt.dispatch = request.dispatch
        if self._sites[prompt.call].marks:
            prompt.kept_as = alone_key(prompt.key)
        self._count_sent(request, prompt, prompt)
        return request

    def _take(self, prompt: PendingPrompt) -> None:
        """Remove the prompt that is the next one by itself from those that wait."""
        if self.packs:
            self._packer.take([prompt], self._ready)
        else:
            self._ready.popleft()

    def _count_sent(self, request: Request, sent: "PendingPrompt | SentPack", prompt: PendingPrompt) -> None:
        """Let the budget follow a request that is sent now, and count it at the call of a prompt."""
        counters = self._sites[prompt.call].counters
        Tries(request.dispatch, self._binding.budget, sent.reservation, counters).follow()
        self._binding.precedence.sent()
        counters.sent(repair=prompt.repair is not None)
        if self._trace:
            self._trace.sent(request)

    def _is_paid(self, prompt: PendingPrompt) -> bool:
        """Return whether a prompt can be sent: its label budget pays for it, or another call needs it in any case."""
        budgets = [self._sites[slot.call].label_budget for slot in prompt.slots]
        if prompt.paid or not budgets or None in budgets:
            return True
        labels = self._sites[prompt.call].label_budget
        prompt.paid = labels is None or labels.take()
        return prompt.paid

    def receive(self, completion: Completion) -> Sequence[Answered]:
        """Receive an answer; return the prompts that it answers. The others are ready to be sent again."""
        if self._trace:
            self._trace.received(completion)
        if completion.id in self._packs:
            return self._receive_pack(completion)
        answered = self._receive_alone(completion)
        return () if answered is None else (answered,)

    def _receive_pack(self, completion: Completion) -> Sequence[Answered]:
        """Receive the answer to a pack. Ask the prompts again that it does not answer, in halves or each by itself."""
        sent = self._packs.pop(completion.id)
        if sent.pack.about_one:
            return self._receive_joined(sent, completion)
        prompts = sent.pack.prompts
        call = prompts[0].call
        self._account(prompts[0], sent, completion)
        reading = sent.pack.read(completion)
        answered: list[Answered] = []
        left: list[PendingPrompt] = []
        for place, prompt in enumerate(prompts):
            text = reading.texts.get(place)
            if text is not None:
                response, value = self._readers[call].read(Completion(completion.id, text), prompt.max_tokens)
                if value.failure is None:
                    answered.append(Answered(prompt, response, value))
                    continue
            left.append(prompt)
        counters = self._sites[call].counters
        counters.add(packed=max(0, len(answered) - 1))
        if why := self._packer.came(call, len(prompts), len(answered), failed=_failed(completion)):
            counters.note(0, 0, together=why)
        if left and not reading.whole:
            self._packer.halve(left)
        else:
            self._packer.alone(left)
        return answered

    def _receive_joined(self, sent: SentPack, completion: Completion) -> Sequence[Answered]:
        """Receive the answers to several questions about one row. Ask each one by itself that has no usable answer."""
        prompts = sent.pack.prompts
        self._account_joined(sent, completion)
        reading = sent.pack.read(completion)
        read = {place: self._read(prompts[place], text) for place, text in reading.texts.items()}
        usable = {place for place, (_, value) in read.items() if value.failure is None}
        if self._mixed_up(prompts, reading.texts, usable):
            usable = set()
        found = [Answered(prompts[place], *read[place]) for place in sorted(usable)]
        ahead = [one for one in found if not one.prompt.slots]
        needed = [one for one in found if one.prompt.slots]
        left = [prompt for place, prompt in enumerate(prompts) if place not in usable]
        for answered in needed[1:]:
            self._sites[answered.prompt.call].counters.add(packed=1)
        if self.questions is not None:
            why = self.questions.came(prompts, len(usable), failed=_failed(completion))
            for prompt in prompts if why else ():
                self._sites[prompt.call].counters.note(0, 0, questions=why)
        self._ask_apart(left)
        return [*ahead, *needed]  # a step after this one finds the answers that were asked ahead

    def _read(self, prompt: PendingPrompt, text: str) -> tuple[Response, Reading]:
        """Return an answer of a shared request as the prompt's own call reads it."""
        return self._readers[prompt.call].read(Completion(0, text), prompt.max_tokens)

    def _mixed_up(self, prompts: Sequence[PendingPrompt], texts: Mapping[int, str], usable: set[int]) -> bool:
        """Return whether an unusable answer suits another question, or has the place of one that suits its question.

        The model has then put answers under wrong codes, and other questions can have a wrong answer that suits them.
        """

        def suits(place: int, text: str) -> bool:
            constrained = self._sites[prompts[place].call].ai.parameters.constraint is not None
            return constrained and self._read(prompts[place], text)[1].failure is None

        wrong = set(texts) - usable
        return any(
            suits(other, texts[place]) or suits(place, texts[other])
            for place in wrong
            for other in texts
            if other != place
        )

    def _account_joined(self, sent: SentPack, completion: Completion) -> None:
        """Count the tokens of an answer to several questions, an equal part at the call of each."""
        prompts, first = sent.pack.prompts, sent.pack.prompts[0]
        names = ("prompt_tokens", "cached_tokens", "completion_tokens", "written_tokens")
        whole = [getattr(completion, name) for name in names]
        parts = [[count // len(prompts) for count in whole] for _ in prompts[1:]]
        rest = [count - sum(given) for count, *given in zip(whole, *parts, strict=True)]
        own = replace(completion, **dict(zip(names, rest, strict=True)))
        self._sites[first.call].counters.received(own, sent.dispatch.age())
        for prompt, part in zip(prompts[1:], parts, strict=True):
            self._sites[prompt.call].counters.add(**dict(zip(names, part, strict=True)))
        if self._ranking.learns:
            self._ranking.paid(first.step, Work(1, *whole[:3]))
        if self._binding.budget is not None and sent.reservation is not None:
            self._binding.budget.settle(sent.reservation, completion)

    def _receive_alone(self, completion: Completion) -> Answered | None:
        """Receive the answer to a single prompt; return None if it is unusable and the prompt is ready again."""
        prompt = self._sent.pop(completion.id)
        self._account(prompt, prompt, completion)
        response, reading = self._readers[prompt.call].read(completion, prompt.max_tokens)
        if prompt.first_answer is not None:
            _, first_reading = prompt.first_answer
            return Answered(prompt, response, repaired(first_reading, reading))
        if reading.fault is not None and self._repairs(prompt, response, reading):
            return None
        return Answered(prompt, response, reading)

    def leave(self) -> list[PendingPrompt]:
        """Leave all sent prompts to a later pass, with their reservations; return all prompts that were left."""
        self._left += self._sent.values()
        self._sent.clear()
        return self._left

    def abandon(self) -> None:
        """Settle the reservations of prompts that will have no answer. A prompt that was not sent is not counted."""
        asked: list[tuple[int, PendingPrompt | SentPack]] = [
            (prompt.call, prompt) for prompt in (*self._sent.values(), *self._left)
        ]
        asked += [(pack.pack.prompts[0].call, pack) for pack in self._packs.values()]
        for call, sent in asked:
            left = sent.dispatch is None or not sent.dispatch.waits
            if not left:
                self._sites[call].counters.add(calls=-1)
            if self._binding.budget is not None and sent.reservation is not None:
                billed = sent.dispatch is not None and sent.dispatch.billed
                self._binding.budget.release(sent.reservation, sent=left, billed=billed)

    def _refused(self, prompt: PendingPrompt, refusal: Response) -> Answered:
        """Return a prompt that is not sent. If this was a second attempt, the prompt keeps its first answer."""
        if prompt.first_answer is not None:
            return Answered(prompt, *prompt.first_answer)
        return Answered(prompt, refusal, read_answer(self._sites[prompt.call].ai, refusal))

    def _account(self, prompt: PendingPrompt, sent: "PendingPrompt | SentPack", completion: Completion) -> None:
        """Count the tokens and the time of an answer to a request, at the call of a prompt."""
        tokens = completion.prompt_tokens, completion.cached_tokens, completion.completion_tokens
        counters = self._sites[prompt.call].counters
        counters.received(completion, sent.dispatch.age() if sent.dispatch is not None else 0.0)
        if self._ranking.learns:
            self._ranking.paid(prompt.step, Work(1, *tokens))
        if self._binding.budget is not None and sent.reservation is not None:
            self._binding.budget.settle(sent.reservation, completion)

    def _repairs(self, prompt: PendingPrompt, response: Response, reading: Reading) -> bool:
        """Return whether an answer has the wrong form, so that the prompt must be sent again; make it ready then."""
        site = self._sites[prompt.call]
        constraint = site.ai.parameters.constraint
        if constraint is None or reading.fault is None or not self._binding.repair:
            return False
        prompt.first_answer = response, reading
        prompt.repair = repair_prompt(site.prompt(prompt.fields), response, reading.fault, constraint)
        self._ready.appendleft(prompt)
        return True


class RequestMaker:
    """The requests of one pass, numbered in the order in which they are sent. One thread uses it."""

    def __init__(self, context: CallContext) -> None:
        self._binding = context.binding
        self._sites = context.sites
        self._steps = len(context.ranking.steps)
        self._asks_once = self._steps == len(context.ranking.steps[0].rounds) == 1
        """All calls over the same values are asked together, so no call can follow an answer."""
        self.names = [call_site(site.ai.function, site.ai.instruction) for site in self._sites]
        """The name of each call in the engine's statistics."""
        self._query = token_hex(8)
        self._numbers = count()
        self._neighbours = PrefixOverlap()
        cache = context.binding.engine.prefix_cache
        hosted = cache is not None and cache.hosted
        self.starts = SharedStarts(cache.pays_from) if cache is not None and hosted else None
        """The starts that prompts share, for the cache of a hosted provider."""
        self._head = extras_of(context.binding.engine).head_of
        self._joined: tuple[PendingPrompt, Pack] | None = None
        """The prompt whose joined questions were written last, and their request."""
        self._rendered: tuple[PendingPrompt, str] | None = None
        """The prompt that was rendered last, and its text. Most often it is also the prompt of the next request."""

    def make(self, prompt: PendingPrompt, following: PendingPrompt | None) -> Request:
        """Return the request for the prompt that is sent next. `following` is the prompt after it, if that is known.

        The caller can ask again for the request of a prompt that the budget held back.
        """
        call, fields = prompt.call, prompt.fields
        site, number = self._sites[call], next(self._numbers)
        text = self._text(prompt)
        if following is not None and following.joined:
            following = None  # it begins in another way
        recurs, ahead = self._neighbours.shared(text, None if following is None else self._text(following))
        if ahead is not None and not self._asks_once and prompt.has_followers(self._steps):
            ahead = max(ahead, site.fields_part(text))
        elif following is not None and self.names[following.call] != self.names[call] and not site.fields_first:
            ahead = None  # further prompts of this call can come after those of the other call
        ends = site.ends(fields) if self.starts is not None else ()
        return Request(
            number,
            text if prompt.repair is None else prompt.repair,
            site.ai.parameters,
            site.ai.function,
            site.ai.instruction,
            tuple(fields),
            self._binding.tenant,
            self._binding.precedence.now,
            recurs=recurs,
            reuse=Reuse(self.names[call], self._query, number, ahead),
            user=self._binding.user,
            max_tokens=site.ai.max_tokens(fields),
            ends=ends,
            shared=self.starts.shared(text, ends, self._kind(site)) if self.starts is not None else 0,
            waits=self._binding.precedence.waits,
        )

    def count(self, prompts: Iterable[PendingPrompt], questions: QuestionPacker | None = None) -> None:
        """Count prompts that will be sent, where the engine needs to know which starts prompts share."""
        if self.starts is not None:
            for prompt in prompts:
                if prompt.joined and questions is not None:
                    pack = self.joined(questions, prompt)
                    self.starts.add(pack.text, pack.ends, self._kind_of(pack.parameters))
                    continue
                site = self._sites[prompt.call]
                self.starts.add(site.prompt(prompt.fields), site.ends(prompt.fields), self._kind(site))

    def sent(self, prompt: PendingPrompt, *, packed: bool = False) -> None:
        """Note that a prompt leaves, by itself or in a pack; the second prompt of a repair was not counted."""
        if self.starts is not None and prompt.repair is None:
            site = self._sites[prompt.call]
            self.starts.sent(self._text(prompt), site.ends(prompt.fields), self._kind(site), packed=packed)

    def sent_pack(self, request: Request) -> None:
        """Note that a pack leaves, with the starts that it shares."""
        if self.starts is not None:
            shared = [end for end in request.ends if end <= request.shared]
            self.starts.store(request.prompt, shared, self._kind_of(request.parameters))

    def _kind(self, site: CallSite) -> Hashable:
        return self._kind_of(site.ai.parameters)

    def _kind_of(self, parameters: Parameters) -> Hashable:
        """Return what an endpoint reads before a prompt, such as a schema: it tells the starts of prompts apart."""
        return self._head(parameters.constraint), parameters.reasoning

    def _shared(self, pack: Pack, following: str | None) -> int:
        """Return the longest start of a pack that enough packs of the pass share."""
        if self.starts is None:
            return 0
        first, kind = pack.prompts[0], self._kind_of(pack.parameters)
        site = self._sites[first.call]
        begin, *_ = site.ends(first.fields)
        rows = self.starts.waiting(self._text(first), begin, self._kind(site))
        packs = max(ceil(rows / len(pack.prompts)), 1 if following is None else 2)
        return self.starts.shared_by_packs(pack.text, pack.ends, packs, following, kind)

    def expect(self, call: int, fields: Fields) -> None:
        """Count a prompt that will probably be sent later."""
        if self.starts is not None:
            site = self._sites[call]
            self.starts.expect(site.prompt(fields), site.ends(fields), self._kind(site))

    def make_pack(self, pack: Pack, following: str | None) -> Request:
        """Return the request for a pack. `following` is the start of the next pack's prompt, if that is known."""
        call = pack.prompts[0].call
        ai, number = self._sites[call].ai, next(self._numbers)
        recurs, ahead = self._neighbours.shared(pack.text, following)
        return Request(
            number,
            pack.text,
            pack.parameters,
            ai.function,
            ai.instruction,
            (),
            self._binding.tenant,
            self._binding.precedence.now,
            recurs=recurs,
            reuse=Reuse(self.names[call], self._query, number, ahead),
            user=self._binding.user,
            max_tokens=pack.max_tokens,
            ends=pack.ends if self.starts is not None else (),
            shared=self._shared(pack, following),
            waits=self._binding.precedence.waits,
            pack=pack.items,
        )

    def joined(self, questions: QuestionPacker, prompt: PendingPrompt) -> Pack:
        """Return the request of a prompt with the questions that are joined to it."""
        if self._joined is None or self._joined[0] is not prompt:
            self._joined = prompt, questions.pack((prompt, *prompt.joined))
        return self._joined[1]

    def make_joined(self, questions: QuestionPacker, pack: Pack, following: PendingPrompt | None) -> Request:
        """Return the request of several questions about one row. `following` is the prompt after it, if known."""
        sites, number = [self._sites[prompt.call] for prompt in pack.prompts], next(self._numbers)
        comes = None
        if following is not None:
            comes = self.joined(questions, following).text if following.joined else self._text(following)
        recurs, ahead = self._neighbours.shared(pack.text, comes)
        function = "\n".join(site.ai.function for site in sites)
        instruction = "\n".join(site.ai.instruction for site in sites)
        starts, kind = self.starts, self._kind_of(pack.parameters)
        return Request(
            number,
            pack.text,
            pack.parameters,
            function,
            instruction,
            (),
            self._binding.tenant,
            self._binding.precedence.now,
            recurs=recurs,
            reuse=Reuse(call_site(function, instruction), self._query, number, ahead),
            user=self._binding.user,
            max_tokens=pack.max_tokens,
            ends=pack.ends if starts is not None else (),
            shared=0 if starts is None else starts.shared(pack.text, pack.ends, kind),
            waits=self._binding.precedence.waits,
            pack=pack.items,
        )

    def sent_joined(self, pack: Pack) -> None:
        """Note that a request of several questions leaves."""
        if self.starts is not None:
            self.starts.sent(pack.text, pack.ends, self._kind_of(pack.parameters))

    def _text(self, prompt: PendingPrompt) -> str:
        if self._rendered is None or self._rendered[0] is not prompt:
            self._rendered = (prompt, self._sites[prompt.call].prompt(prompt.fields))
        return self._rendered[1]


def _failed(completion: Completion) -> bool:
    """Return whether a request has no answer of the model, not even a refusal."""
    return completion.error is not None and not completion.refusal


class PrefixOverlap:
    """The prompts of one pass, followed in the order in which they are sent."""

    def __init__(self) -> None:
        self._current = ""
        self._following: str | None = None
        self._before, self._ahead = 0, 0
        """Characters that the current prompt shares with the prompt before it, and with the following prompt."""

    def shared(self, prompt: str, following: str | None) -> tuple[int, int | None]:
        """Return how many leading characters a prompt shares with either neighbour, and with the following one.

        The neighbours are the prompt before it and the prompt `following`, if that is known already. Prompts are sent
        in an order that keeps common prefixes together: later prompts share no more than the following one does. The
        caller can ask again about a prompt that it held back.
        """
        if prompt != self._current:
            known = prompt == self._following
            self._before = self._ahead if known else shared_start(self._current, prompt, self._before)
            self._current, self._following, self._ahead = prompt, None, 0
        if following is not None and following != self._following:
            self._following, self._ahead = following, shared_start(prompt, following, self._before)
        return max(self._before, self._ahead), None if following is None else self._ahead


class Trace:
    """One log event per prompt sent and answer received; falsy if no events are logged.

    `prompt_id` pairs an answer with its prompt within one call of the engine.
    """

    def __init__(self) -> None:
        log: Any = structlog.get_logger(__name__).bind()
        wanted = structlog.is_configured() and log.is_enabled_for(logging.DEBUG)  # without configuration it prints all
        self._log = log if wanted else None

    def __bool__(self) -> bool:
        """Return whether events are logged."""
        return self._log is not None

    def sent(self, request: Request) -> None:
        """Log a prompt."""
        if self._log is not None:
            self._log.debug("prompt sent", prompt_id=request.id, function=request.function, prompt=request.prompt)

    def received(self, completion: Completion) -> None:
        """Log an answer."""
        if self._log is not None:
            tokens = {"prompt_tokens": completion.prompt_tokens, "completion_tokens": completion.completion_tokens}
            answer = {"answer": completion.text, "error": completion.error}
            self._log.debug("answer received", prompt_id=completion.id, **answer, **tokens)
