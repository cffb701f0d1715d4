"""Answer the units of one pass: from the answer cache, or from the engine, which gets each prompt once."""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from flightllm.errors import CancelledError, InternalError
from flightllm.model.cost import Work
from flightllm.model.engine import Completion, Dispatch, Request
from flightllm.operators.batches import Unit
from flightllm.operators.budget import Reservation
from flightllm.operators.means import Means, Site
from flightllm.operators.ranking import Ranking
from flightllm.operators.repair import repair_prompt, repaired
from flightllm.operators.requests import Requests
from flightllm.operators.rows import Named, Reading, Said, given_fields, read_answer, sql_value
from flightllm.operators.trace import Trace
from flightllm.plan.stages import BoundStep

_FINISHED_UNITS = 8
"""The most finished units that wait for the consumer, so that cached answers do not pile up."""
_BACKLOG_RUNS, _BACKLOG_WINDOWS, _BACKLOG_BYTES = 4_096, 4, 64 << 20
"""Limits of the open units. They have at most this many runs, or this many windows of prompts if that is more.
Wide rows have at most this many bytes, if the runs fill at least two windows."""
_Place: TypeAlias = tuple[Unit, int, int]
"""A unit, a call and a run of the unit: the destination of an answer.

Calls that differ only in `on_error` or `on_truncated` share prompts.
"""
_Fields: TypeAlias = list[tuple[str, str]]


@dataclass(slots=True)
class _Waiting:
    """A prompt that this query or another one asks, and the places that need its answer."""

    key: bytes
    call: int
    fields: _Fields
    step: int
    places: list[_Place]
    reservation: Reservation | None = None
    dispatch: Dispatch | None = None
    max_tokens: int = 0
    """The token limit of the request."""
    first: tuple[Said, Reading] | None = None
    """The first answer and its reading, where it is unusable and the prompt `repair` asks again."""
    repair: str | None = None
    new: bool = True
    """The call needs this key for the first time."""


class Asker:
    """The loop that drives the engine over the units of one pass, step by step. One thread uses it."""

    def __init__(self, means: Means, sites: Sequence[Site], steps: Sequence[BoundStep], ranking: Ranking) -> None:
        self._means = means
        self._backing = means.backing
        self._sites = sites
        self._steps = steps
        self._ranking = ranking
        self._ids = count()
        self._requests = Requests(means.backing, sites)
        self._flying: dict[int, _Waiting] = {}
        self._asked: dict[bytes, _Waiting] = {}
        self._foreign: dict[bytes, _Waiting] = {}
        """The prompts that another query asks; the claims receive their answers."""
        self._ready: deque[_Waiting] = deque()
        self._failed: dict[bytes, str] = {}
        self._partial: dict[bytes, Said] = {}
        """Answers that the token limit cut: this pass uses them, and the cache does not keep them."""
        self._seen = [set[bytes]() if site.repeats else None for site in sites]
        """The keys seen so far, for calls in which distinct tuples can have the same key."""
        self._last: dict[int, bytes] = {}
        self._named: dict[tuple[int, tuple[int, ...]], list[Named]] = {}
        self._open: dict[int, Unit] = {}
        self._open_runs = self._open_bytes = 0
        self._done: deque[Unit] = deque()
        self._ended = False
        """At least one unit went through all steps."""
        self._exhausted = False
        self._window = self._backing.window * self._backing.replicas
        self._trace = Trace()

    def answer(self, units: Iterator[Unit], cancelled: Callable[[], bool]) -> Generator[Unit, None, None]:
        """Yield each unit once it has all of its answers; units can come out of order.

        Raises:
            EngineError: the engine is gone, or a prompt failed and its call says `on_error => 'fail'`.
            BudgetExceededError: the session's budget is spent, and the session wants the query to fail then.
            CancelledError: `cancelled()` turned true.
        """
        claims = self._means.claims
        watched = claims.watched(cancelled)
        try:
            while not self._exhausted or self._open or self._done:
                if watched():
                    raise CancelledError("the query was cancelled")
                claims.busy = True
                stream = self._backing.engine.generate(self._asking(units), watched)
                with closing(cast("Generator[Completion, None, None]", stream)) as completions:
                    for completion in completions:
                        self._settle(completion)
                        yield from self._finished()
                if self._flying:
                    raise InternalError(
                        f"{self._backing.engine.name} left {len(self._flying)} prompts without an answer"
                    )
                yield from self._finished()
        finally:
            for waiting in self._flying.values():
                self._give_up(waiting)
            claims.close()
            self._backing.cache.flush()

    def _give_up(self, waiting: _Waiting) -> None:
        """Give back the reservation of a prompt without an answer; an unsent prompt does not count as a call."""
        sent = waiting.dispatch is None or not waiting.dispatch.waits
        if not sent:
            self._sites[waiting.call].counters.add(calls=-1)
        if self._backing.budget is not None and waiting.reservation is not None:
            self._backing.budget.release(waiting.reservation, sent=sent)

    def _finished(self) -> Iterator[Unit]:
        while self._done:
            unit = self._done.popleft()
            self._backing.cache.flush()  # a crash must not lose an answer that a client has seen
            self._means.claims.busy = False
            yield unit
            self._means.claims.busy = True
            self._means.demand.seen(len(unit.tuples))

    def _asking(self, units: Iterator[Unit]) -> Iterator[Request | None]:
        """Yield requests, and None while they wait for answers; end once finished units can be yielded."""
        while True:
            self._land()
            request = self._next_request()
            if request is not None:
                yield request
            elif not self._ready and self._may_begin():
                unit = next(units, None)
                if unit is None:
                    self._exhausted = True
                else:
                    self._begin(unit)
            elif self._flying or (self._foreign and not self._done):
                yield None
            else:
                return

    def _may_begin(self) -> bool:
        """Tell whether to begin another unit now."""
        if self._exhausted or len(self._done) >= _FINISHED_UNITS:
            return False
        if self._means.demand.limited and (self._done or not self._means.demand.room(self._open_runs)):
            return False
        if self._ranking.learns and self._open and not self._ended:
            return False  # the first unit shows which filter to try first
        enough = 2 * self._window
        if self._open_bytes >= _BACKLOG_BYTES and self._open_runs >= enough:
            return False
        return self._open_runs < max(_BACKLOG_RUNS, _BACKLOG_WINDOWS * self._window)

    def _begin(self, unit: Unit) -> None:
        self._open[id(unit)] = unit
        self._open_runs += len(unit.tuples)
        self._open_bytes += unit.rows.nbytes
        self._advance(unit)

    def _end(self, unit: Unit) -> None:
        self._ended = True
        del self._open[id(unit)]
        self._open_runs -= len(unit.tuples)
        self._open_bytes -= unit.rows.nbytes
        self._done.append(unit)

    def _advance(self, unit: Unit) -> None:
        """Continue a unit without open answers: with the next round, the condition, the next step, or the end."""
        while not unit.open:
            if unit.rounds:
                self._want(unit, unit.rounds.pop(0))
                continue
            if unit.step is not None:
                self._filter(unit, unit.step)
            unit.step = self._next_step(unit)
            if unit.step is None:
                self._end(unit)
                return
            unit.done.add(unit.step)
            unit.rounds = list(self._steps[unit.step].rounds)

    def _next_step(self, unit: Unit) -> int | None:
        """Return the step to do next: first a filter whose answers are all in the cache, as it costs nothing."""
        steps = self._ranking.next(unit.done)
        filters = [step for step in steps if self._steps[step].condition is not None]
        if len(filters) > 1 and self._means.dedup:
            for step in filters:
                keys = [key for r in self._steps[step].rounds for c in r for _, _, key in self._listed(unit, c)]
                if len(self._backing.cache.peek(keys)) == len(set(keys)):
                    return step
        return steps[0] if steps else None

    def _filter(self, unit: Unit, step: int) -> None:
        condition = self._steps[step].condition
        if condition is None or self._means.conditions is None:
            return
        before = unit.kept
        unit.keep(self._means.conditions.true(condition, unit))
        self._ranking.filtered(step, before, unit.kept)

    def _want(self, unit: Unit, calls: Sequence[int]) -> None:
        """Look up the answers of calls, and queue the prompts without a known answer."""
        unit.open += 1
        wanted = [self._wanted(unit, call) for call in calls]
        keys = [key for found in wanted for _, _, key, _ in found]
        mine = self._means.claims.claim(key for key in keys if key not in self._asked and key not in self._foreign)
        known = self._backing.cache.get(keys)
        self._means.claims.drop(known)
        asking: list[_Waiting] = []
        for call, found in zip(calls, wanted, strict=True):
            unit.answers.setdefault(call, [None] * len(unit.tuples))
            unit.open += len(found)
            for run, fields, key, new in found:
                waiting = _Waiting(key, call, fields, unit.step or 0, [(unit, call, run)], new=new)
                if self._place(waiting, known, mine):
                    asking.append(waiting)
        if self._sites[calls[0]].fields_first:
            asking.sort(key=lambda waiting: waiting.places[0][2])
        # Later rounds go first: the engine's prefix cache still has the start of their prompts.
        if len(unit.done) > 1 or len(calls) < sum(map(len, self._steps[unit.step or 0].rounds)):
            self._ready.extendleft(reversed(asking))
        else:
            self._ready.extend(asking)
        unit.open -= 1

    def _place(self, waiting: _Waiting, known: dict[bytes, str], mine: set[bytes]) -> bool:
        """Fill in a known answer or join a prompt in flight; return True where this query must ask the prompt."""
        key, site = waiting.key, self._sites[waiting.call]
        if key in known:
            reading = read_answer(site.ai, Said(known[key]))
            if reading.failure is None:
                site.counters.add(cache_hits=waiting.new)
                self._fill(waiting, reading)
                return False
            mine.update(self._means.claims.claim([key]))
        said = self._partial.get(key)
        if said is not None and said.cut is not None:
            room = site.ai.max_tokens(waiting.fields) or site.ai.parameters.max_tokens
            if room > said.cut:
                del self._partial[key]  # the call of that answer had a lower token limit
        if key in self._partial or key in self._failed:
            self._means.claims.drop([key])
            self._again(waiting)
            return False
        asked = self._asked.get(key) or self._foreign.get(key)
        if asked is not None:
            asked.places += waiting.places
            return False
        if key not in mine:
            self._foreign[key] = waiting
            return False
        self._asked[key] = waiting
        return True

    def _again(self, waiting: _Waiting) -> None:
        """Fill in the earlier answer of this pass: a text that the token limit cut, or a failure."""
        if waiting.key in self._failed:
            self._fill(waiting, Reading(None, self._failed[waiting.key]))
            return
        site = self._sites[waiting.call]
        reading = read_answer(site.ai, self._partial[waiting.key])
        site.counters.add(cache_hits=waiting.new and reading.failure is None)
        self._fill(waiting, reading)

    def _wanted(self, unit: Unit, call: int) -> list[tuple[int, _Fields, bytes, bool]]:
        """List the runs that need an answer, with True if the call needs their key for the first time; count them."""
        counters = self._sites[call].counters
        wanted = [(run, fields, key, self._is_new(call, key)) for run, fields, key in self._listed(unit, call)]
        distinct = sum(new for _, _, _, new in wanted)
        expected = 0 if self._means.expected else distinct
        counters.add(rows=unit.kept, distinct_prompts=distinct, prompts_expected=expected)
        return wanted

    def _listed(self, unit: Unit, call: int) -> list[tuple[int, _Fields, bytes]]:
        """List the runs that need an answer, with their named values in prompt order and their key."""
        site = self._sites[call]
        guard = self._guard(unit, site)
        if guard is not None:
            unit.asked[call] = guard
        listed = []
        for run in np.flatnonzero(unit.needed(guard)).tolist():
            order = unit.orders[run] if unit.orders else site.order
            fields = given_fields(self._names(call, order), unit.tuples[run])
            if fields is not None:
                listed.append((run, fields, self._key(site, fields)))
        return listed

    def _guard(self, unit: Unit, site: Site) -> NDArray[np.bool_] | None:
        if site.guard is not None and self._means.conditions is not None:
            return self._means.conditions.true(site.guard, unit)
        return None if site.when is None else unit.true(site.when)

    def _names(self, call: int, order: tuple[int, ...]) -> list[Named]:
        if (call, order) not in self._named:
            self._named[call, order] = self._sites[call].named(order)
        return self._named[call, order]

    def _key(self, site: Site, fields: _Fields) -> bytes:
        key = site.keys.key(fields)
        return key if self._means.dedup else key + next(self._ids).to_bytes(8)

    def _is_new(self, call: int, key: bytes) -> bool:
        """Return True if a call needs a key for the first time, and record the key."""
        seen = self._seen[call]
        if seen is None:  # equal tuples are neighbours, also across two units
            before, self._last[call] = self._last.get(call), key
            return key != before
        new = key not in seen
        seen.add(key)
        return new

    def _next_request(self) -> Request | None:
        """Return the next request to send; None if no prompt is ready, or if the budget holds it back for now."""
        while self._ready:
            waiting = self._ready[0]
            site = self._sites[waiting.call]
            after = self._ready[1] if len(self._ready) > 1 else None
            following = None if after is None else (after.call, after.fields)
            again = self._goes_on(waiting)
            prompt = waiting.call, waiting.fields
            request = self._requests.make(prompt, following, again=again, repair=waiting.repair)
            if self._backing.budget is not None:
                waiting.reservation = self._backing.budget.take(request, waits=bool(self._flying))
                if waiting.reservation is None and self._backing.budget.refusal is None:
                    return None
            self._ready.popleft()
            if self._backing.budget is not None and waiting.reservation is None:
                said = Said(None, self._backing.budget.refusal)
                self._answered(waiting, *(waiting.first or (said, read_answer(site.ai, said))))
                continue
            self._flying[request.id] = waiting
            waiting.max_tokens = request.limit
            waiting.dispatch = request.dispatch
            self._backing.precedence.sent()
            site.counters.add(calls=1, repairs=waiting.repair is not None)
            if self._trace:
                self._trace.sent(request)
            return request
        return None

    def _goes_on(self, waiting: _Waiting) -> bool:
        """Tell whether further calls over the same values can follow once the prompt is answered."""
        return any(unit.rounds or len(unit.done) < len(self._steps) for unit, _, _ in waiting.places)

    def _settle(self, completion: Completion) -> None:
        """Count an answer, read it, and fill it in or ask again."""
        if self._trace:
            self._trace.received(completion)
        waiting = self._flying.pop(completion.id)
        self._sites[waiting.call].counters.add(
            answered=1,
            prompt_tokens=completion.prompt_tokens,
            cached_tokens=completion.cached_tokens,
            completion_tokens=completion.completion_tokens,
        )
        tokens = completion.prompt_tokens, completion.cached_tokens, completion.completion_tokens
        self._ranking.paid(waiting.step, Work(1, *tokens))
        if self._backing.budget is not None and waiting.reservation is not None:
            self._backing.budget.settle(waiting.reservation, completion)
        ai = self._sites[waiting.call].ai
        said = Said.of(ai, completion, waiting.max_tokens)
        reading = read_answer(ai, said)
        if waiting.first is not None:
            reading = repaired(waiting.first[1], reading)
        elif self._is_asked_again(waiting, said, reading):
            return
        self._answered(waiting, said, reading)

    def _is_asked_again(self, waiting: _Waiting, said: Said, reading: Reading) -> bool:
        """Queue a second prompt if an answer is unusable and its call is constrained; tell whether that happened."""
        site = self._sites[waiting.call]
        constraint = site.ai.parameters.constraint
        if constraint is None or reading.fault is None or not self._backing.repair:
            return False
        waiting.first = said, reading
        waiting.repair = repair_prompt(site.prompt(waiting.fields), said, reading.fault, constraint)
        self._ready.appendleft(waiting)
        return True

    def _answered(self, waiting: _Waiting, said: Said, reading: Reading) -> None:
        """Cache a readable answer, give it to the queries that wait for it, and fill it in."""
        del self._asked[waiting.key]
        kept = said.text if reading.failure is None and said.cut is None else None
        if said.cut is not None and waiting.repair is None:
            self._partial[waiting.key] = said
        elif reading.failure is not None:
            self._failed[waiting.key] = reading.failure
        elif kept is not None:
            self._backing.cache.put(waiting.key, kept)
        self._means.claims.answered(waiting.key, kept)
        self._fill(waiting, reading, said)
        self._go_on(waiting)

    def _land(self) -> None:
        """Fill in answers that other queries received; ask the prompts that they could not answer."""
        if not self._foreign:
            return
        for key, text in self._means.claims.landed().items():
            waiting = self._foreign.pop(key, None)
            if waiting is None:
                continue
            site = self._sites[waiting.call]
            reading = read_answer(site.ai, Said(text))
            if reading.failure is None:
                site.counters.add(cache_hits=1)
                self._fill(waiting, reading)
                self._go_on(waiting)
                continue
            mine = self._means.claims.claim([key])
            known = self._backing.cache.get([key])
            self._means.claims.drop(known)
            if self._place(waiting, known, mine):
                self._ready.appendleft(waiting)
            self._go_on(waiting)

    def _go_on(self, waiting: _Waiting) -> None:
        for unit, _, _ in waiting.places:
            if not unit.open and id(unit) in self._open:
                self._advance(unit)

    def _fill(self, waiting: _Waiting, found: Reading, said: Said | None = None) -> None:
        """Put an answer, or the value that `on_error` gives for a failure, into its places.

        If the token limit cut the answer, each call reads `said` by itself.
        """
        for unit, call, run in waiting.places:
            site = self._sites[call]
            own = found if call == waiting.call or said is None or said.cut is None else read_answer(site.ai, said)
            unit.answers[call][run] = sql_value(site.ai, own.value, own.failure)
            unit.open -= 1
            if own.failure is not None:
                rows = unit.run == run
                site.counters.add(failed_rows=int((rows if unit.alive is None else rows & unit.alive).sum()))
