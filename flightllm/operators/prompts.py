"""The prompts of one pass: list them, find the answers that exist, and write answers to their places."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flightllm.llm.engine import Dispatch
from flightllm.operators.batches import Conditions, PromptBatch
from flightllm.operators.budget import Reservation
from flightllm.operators.call_context import CallContext, CallSite
from flightllm.operators.label_budget import UNPAID, Fate
from flightllm.operators.rows import Named, Reading, Response, given_fields, read_answer, sql_value

Fields: TypeAlias = list[tuple[str, str]]
"""The named values of one prompt, in prompt order."""


@dataclass(slots=True)
class OpenBatch:
    """A batch on its way through the steps of the pass."""

    batch: PromptBatch
    pending: int = 0
    """Answers that must come before the batch can go on."""
    begun: set[int] = field(default_factory=set)
    """The steps begun so far."""
    step: int | None = None
    """The step begun last."""
    rounds: list[tuple[int, ...]] = field(default_factory=list)
    """The rounds of `step` whose calls are not asked yet."""
    finished: bool = False
    """Whether all steps are done."""


@dataclass(slots=True)
class AnswerSlot:
    """The place of one answer: a distinct tuple of a batch, and the call."""

    open_batch: OpenBatch
    call: int
    tuple_index: int


@dataclass(slots=True)
class PendingPrompt:
    """A prompt without an answer yet.

    Example: the rows `red`, `red` and `blue` make two prompts. Another call that differs only in `on_error` has the
    same keys, and so has one that other examples calibrate. So each of the two prompts has two slots: one per call.
    """

    key: bytes
    call: int
    """The call that rendered the prompt. Slots of other calls have the same prompt, and can read its answer
    differently."""
    fields: Fields
    step: int
    slots: list[AnswerSlot]
    first_use: bool = True
    """Whether the call needs this key for the first time, its sample of rows included."""
    reservation: Reservation | None = None
    dispatch: Dispatch | None = None
    max_tokens: int = 0
    """The token limit of the request."""
    first_answer: tuple[Response, Reading] | None = None
    """The unusable first answer, if the prompt is sent again."""
    repair: str | None = None
    """The text that is sent the second time; it begins with the text of the prompt."""
    paid: bool = False
    """Whether the label budget of the call has paid for the prompt."""
    alone: bool = False
    """Whether the prompt must not share a request with others."""
    joined: "Sequence[PendingPrompt]" = ()
    """Other questions about the same fields, which share the request of this one."""
    kept_as: bytes | None = None
    """The key under which the answer is kept, where this is not `key`."""

    def has_followers(self, steps: int) -> bool:
        """Return whether calls over the same values can follow the answer, in a pass with this many steps."""
        return any(slot.open_batch.rounds or len(slot.open_batch.begun) < steps for slot in self.slots)


@dataclass(frozen=True, slots=True)
class Answered:
    """A prompt with its answer, as the prompt's own call reads it."""

    prompt: PendingPrompt
    response: Response
    reading: Reading


class _Failed(NamedTuple):
    """An unusable answer, as the call that asked for it reads it. It keeps no rows, unlike `Answered`."""

    call: int
    response: Response
    reading: Reading


class PromptLister:
    """Turn the distinct tuples of a batch into prompts with cache keys. One thread uses it.

    A tuple has no prompt if a required value is NULL. It also has no prompt if no row of the tuple is left, or if the
    guard is false for all of its rows.
    """

    def __init__(
        self,
        sites: Sequence[CallSite],
        conditions: Conditions | None = None,
        *,
        dedup: bool = True,
        prompts_counted: bool = False,
    ) -> None:
        """`sites` can change later; see `CallContext` for the other arguments."""
        self._sites = sites
        self._conditions = conditions
        self._dedup = dedup
        self._count_prompts = not prompts_counted
        self._named: dict[tuple[int, tuple[int, ...]], list[Named]] = {}
        """The fields of each call, by the order of the values in the prompt."""
        self._unique = count()
        """Numbers that make equal keys different, where equal prompts are not shared."""
        fresh = any(site.ai.fresh for site in self._sites)
        self._seen = [set[bytes]() if site.repeats or fresh else None for site in self._sites]
        """The keys so far of each call whose distinct tuples can have equal keys."""
        self._last_key: dict[int, bytes] = {}
        """The last key of each call."""

    def pending(self, open_batch: OpenBatch, call: int) -> list[PendingPrompt]:
        """Return a call's prompts for a batch, and add them to the call's counters."""
        batch, step = open_batch.batch, open_batch.step or 0
        listed = self.listed(batch, call)
        first_uses = self._first_uses(call, listed)
        wanted = sum(first_uses)
        sampled = self._sites[call].sampled
        if sampled is not None:
            first_uses = [first and key not in sampled for (_, _, key), first in zip(listed, first_uses, strict=True)]
            if self._sites[call].asks_example:
                sampled.update(key for _, _, key in listed)
        prompts = [
            PendingPrompt(key, call, fields, step, [AnswerSlot(open_batch, call, at)], first_use)
            for (at, fields, key), first_use in zip(listed, first_uses, strict=True)
        ]
        distinct = sum(first_uses)
        expected = distinct if self._count_prompts else distinct - wanted
        rows = 0 if self._sites[call].asks_example else batch.kept
        self._sites[call].counters.add(rows=rows, distinct_prompts=distinct, prompts_expected=expected)
        return prompts

    def keys(self, batch: PromptBatch, call: int) -> list[bytes]:
        """Return the keys of a call's prompts for a batch, and count nothing."""
        return [key for _, _, key in self.listed(batch, call)]

    def following(self, batch: PromptBatch, call: int) -> tuple[Fields, bytes] | None:
        """Return the fields and the key of a call's prompt after a batch, as far as it is known."""
        if batch.following is None:
            return None
        values, order = batch.following
        site = self._sites[call]
        fields = given_fields(self._names(call, site.order if order is None else order), values)
        return None if fields is None else (fields, site.keys.key(fields))

    def listed(self, batch: PromptBatch, call: int, *, guarded: bool = True) -> list[tuple[int, Fields, bytes]]:
        """Return the index of each tuple that needs a prompt, with the prompt's fields and key.

        Without `guarded`, tuples count for which a guard by other answers can be false.
        """
        site = self._sites[call]
        guard = self._guard(batch, site) if guarded or site.guard is None else None
        if guard is not None:
            batch.guards[call] = guard
        listed = []
        orders, tuples, key = batch.orders, batch.tuples, self._key
        order, named = site.order, self._names(call, site.order)
        for tuple_index in np.flatnonzero(batch.needed(guard)).tolist():
            if orders and orders[tuple_index] is not order:
                order = orders[tuple_index]
                named = self._names(call, order)
            fields = given_fields(named, tuples[tuple_index])
            if fields is not None:
                listed.append((tuple_index, fields, key(site, fields)))
        return listed

    def _guard(self, batch: PromptBatch, site: CallSite) -> NDArray[np.bool_] | None:
        """Return for each row whether it needs the call; None if all do."""
        if site.guard is not None and self._conditions is not None:
            return self._conditions.true(site.guard, batch)
        return None if site.when is None else batch.true(site.when)

    def _names(self, call: int, order: tuple[int, ...]) -> list[Named]:
        if (call, order) not in self._named:
            self._named[call, order] = self._sites[call].named(order)
        return self._named[call, order]

    def _key(self, site: CallSite, fields: Fields) -> bytes:
        key = site.keys.key(fields)
        return key if self._dedup and not site.ai.fresh else key + next(self._unique).to_bytes(8)

    def _first_uses(self, call: int, listed: Sequence[tuple[int, Fields, bytes]]) -> list[bool]:
        """Return for each prompt whether the call needs its key for the first time, and note that the call did."""
        seen, first_uses = self._seen[call], []
        before = self._last_key.get(call)
        for _, _, key in listed:
            if seen is None:  # equal keys are neighbours here: the last tuple of a batch and the first of the next
                first_uses.append(key != before)
            else:
                first_uses.append(key not in seen)
                seen.add(key)
            before = key
        if before is not None:
            self._last_key[call] = before
        return first_uses


@dataclass(frozen=True, slots=True)
class Lookup:
    """The state of some keys: those with cached answers, and those that this pass holds a lease for."""

    cached: dict[bytes, str]
    leased: set[bytes]
    """The keys that this pass must send, unless they are cached."""


class PromptRegistry:
    """Track for each key where its answer is, or which pass sends its prompt. One thread uses a registry.

    A key is in one of these places:

    | place | the answer |
    |---|---|
    | answer cache | is read from there |
    | `_cut`, `_failed` | came earlier in this pass, and the cache does not keep it |
    | `_errors` | is the error that an earlier pass got |
    | `_sent_here` | comes to this pass |
    | `_sent_elsewhere` | comes to another query of the server, which then shares it |
    | none of them | does not exist: this pass sends the prompt |
    """

    def __init__(self, context: CallContext) -> None:
        self._cache = context.answers
        self._leases = context.leases
        self._sites = context.sites
        self._sent_here: dict[bytes, PendingPrompt] = {}
        self._sent_elsewhere: dict[bytes, PendingPrompt] = {}
        self._failed: dict[bytes, _Failed] = {}
        self._binding = context.binding
        self._errors = context.errors
        self._cut: dict[bytes, Response] = {}
        """Answers that the token limit cut short. Only this pass uses them: another limit gives another answer."""
        self._asked_ahead: set[bytes] = set()
        """The keys whose answers came in requests of earlier steps, until a call needs them."""

    @property
    def waits_for_others(self) -> bool:
        """Return whether a prompt waits for the answer of another query."""
        return bool(self._sent_elsewhere)

    def look_up(self, keys: Sequence[bytes]) -> Lookup:
        """Look for keys in the cache, and lease those that nobody sends."""
        # The lease comes first: an owner fills the cache before it ends its lease, so no answer is missed in between.
        leased = self._leases.acquire(
            key for key in keys if key not in self._sent_here and key not in self._sent_elsewhere
        )
        cached = self._cache.get(keys)
        self._leases.release(cached)
        return Lookup(cached, leased)

    def answer(self, prompt: PendingPrompt, lookup: Lookup) -> Answered | None:
        """Return a prompt with its answer, or None if no usable one is known."""
        key, site = prompt.key, self._sites[prompt.call]
        if key in lookup.cached:
            response = Response(lookup.cached[key])
            reading = read_answer(site.ai, response)
            if reading.failure is None:
                if key in self._asked_ahead:
                    self._asked_ahead.discard(key)
                    site.counters.add(packed=prompt.first_use)
                else:
                    site.counters.add(cache_hits=prompt.first_use)
                return Answered(prompt, response, reading)

            lookup.leased.update(self._leases.acquire([key]))
        if key not in self._cut and key not in self._failed and key not in self._errors:
            return None
        reused = self._earlier_answer(prompt)
        if reused is not None:
            self._leases.release([key])
        return reused

    def knows_none(self, lookup: Lookup) -> bool:
        """Return whether no prompt of a look-up has a known answer; `answer` returns None for all of them."""
        return not (lookup.cached or self._cut or self._failed or self._errors)

    def all_to_send(self, prompts: Iterable[PendingPrompt], lookup: Lookup) -> list[PendingPrompt]:
        """Register prompts without an answer; return those to send, as `must_send` says."""
        here, elsewhere, leased = self._sent_here, self._sent_elsewhere, lookup.leased
        to_send = []
        for prompt in prompts:
            key = prompt.key
            if key in leased and key not in here and key not in elsewhere:
                here[key] = prompt
                to_send.append(prompt)
            elif self.must_send(prompt, lookup):
                to_send.append(prompt)
        return to_send

    def must_send(self, prompt: PendingPrompt, lookup: Lookup) -> bool:
        """Register a prompt without an answer; return whether to send it. If not, it is already being sent."""
        key = prompt.key
        same = self._sent_here.get(key) or self._sent_elsewhere.get(key)
        if same is not None:
            same.slots += prompt.slots
            return False
        if key not in lookup.leased:
            self._sent_elsewhere[key] = prompt
            return False
        self._sent_here[key] = prompt
        return True

    def ride(self, prompts: Sequence[PendingPrompt]) -> list[PendingPrompt]:
        """Register prompts that no row needs yet; return those whose answers are unknown and that nobody sends."""
        if not prompts:
            return []
        known = (self._sent_here, self._sent_elsewhere, self._failed, self._errors, self._cut)
        free = [prompt for prompt in prompts if not any(prompt.key in place for place in known)]
        leased = self._leases.acquire(prompt.key for prompt in free)
        cached = self._cache.peek([prompt.key for prompt in free])
        self._leases.release([prompt.key for prompt in free if prompt.key in cached or prompt.key not in leased])
        found = []
        for prompt in free:
            if prompt.key in leased and prompt.key not in cached and prompt.key not in self._sent_here:
                self._sent_here[prompt.key] = prompt
                found.append(prompt)
        return found

    def drop(self, prompt: PendingPrompt) -> None:
        """Forget a prompt of `ride` that no row needs and that will not be sent."""
        del self._sent_here[prompt.key]
        self._leases.complete(prompt.key, None)

    def record(self, answered: Answered) -> None:
        """Cache the answer to a prompt of this pass, and share it with the queries that wait for it."""
        prompt, response, reading = answered.prompt, answered.response, answered.reading
        key = prompt.key
        del self._sent_here[key]
        if not prompt.slots:
            self._asked_ahead.add(key)
        fresh = self._sites[prompt.call].ai.fresh
        kept = response.text if reading.failure is None and response.cut is None and not fresh else None
        if response.cut is not None and prompt.repair is None:
            self._cut[key] = response
        elif reading.failure is not None:
            self._failed[key] = _Failed(prompt.call, response, reading)
            if response.text is None and not fresh and response.error != self._binding.refusal:
                self._errors[key] = response
        elif kept is not None:
            self._cache.put(prompt.kept_as or key, kept)
        self._leases.complete(key, kept)

    def shared_answers(self) -> Iterator[tuple[PendingPrompt, Answered | None]]:
        """Yield the prompts whose owners are done, each with its answer or with None if this pass must look again."""
        for key, text in self._leases.take_answers().items():
            prompt = self._sent_elsewhere.pop(key, None)
            if prompt is None:
                continue
            site = self._sites[prompt.call]
            response = Response(text)
            reading = read_answer(site.ai, response)
            if reading.failure is None:
                site.counters.add(cache_hits=1)
                yield prompt, Answered(prompt, response, reading)
            else:
                yield prompt, None

    def _earlier_answer(self, prompt: PendingPrompt) -> Answered | None:
        """Return an earlier answer: a failure, or a text that the token limit cut in this pass."""
        key, site = prompt.key, self._sites[prompt.call]
        response = self._cut.get(key)
        if response is not None and response.cut is not None:
            limit = site.ai.max_tokens(prompt.fields) or site.ai.parameters.max_tokens
            if limit > response.cut:
                del self._cut[key]  # this call leaves more room for an answer than the earlier call did
        failed = self._failed.get(key)
        if failed is not None and failed.call == prompt.call:
            return Answered(prompt, failed.response, failed.reading)
        response = self._cut.get(key) or self._errors.get(key) if failed is None else failed.response
        if response is None:
            return None
        reading = read_answer(site.ai, response)
        site.counters.add(cache_hits=prompt.first_use and reading.failure is None)
        return Answered(prompt, response, reading)


def write_answer(answered: Answered, sites: Sequence[CallSite]) -> None:
    """Write an answer, or the value that `on_error` gives for a failure, into every slot of a prompt.

    Each call of the slots reads the answer in its own way: `on_truncated` decides about a cut text, and examples decide
    which option is chosen.

    Raises:
        EngineError: the reading is a failure, and a call of the slots has `on_error => 'fail'`.
    """
    prompt, response, reading = answered.prompt, answered.response, answered.reading
    for slot in prompt.slots:
        call, open_batch = slot.call, slot.open_batch
        site, batch = sites[call], open_batch.batch
        own = reading if call == prompt.call or response is UNPAID else read_answer(site.ai, response)
        if not (site.spares_too_long and response.too_long and site.ai.on_error == "fail"):
            batch.answers[call][slot.tuple_index] = sql_value(site.ai, own.value, own.failure)
        open_batch.pending -= 1
        if own.failure is not None and not site.asks_example:
            site.counters.add(failed_rows=batch.kept_rows_of(slot.tuple_index))
        if site.label_budget is not None:
            fate: Fate = "left" if response is UNPAID else "asked" if prompt.paid else "known"
            site.label_budget.count(fate, batch.kept_rows_of(slot.tuple_index))
