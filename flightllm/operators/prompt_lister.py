"""List the prompts that a batch needs for a call."""

from itertools import count

import numpy as np
from numpy.typing import NDArray

from flightllm.operators.batches import PromptBatch
from flightllm.operators.call_context import CallContext, CallSite
from flightllm.operators.pending_prompt import AnswerSlot, Fields, OpenBatch, PendingPrompt
from flightllm.operators.rows import Named, given_fields


class PromptLister:
    """Turn the distinct tuples of a batch into prompts with cache keys. One thread uses it.

    A tuple has no prompt if a required value is NULL. It also has no prompt if no row of the tuple is left, or if the
    guard is false for all of its rows.
    """

    def __init__(self, context: CallContext, sites: tuple[CallSite, ...]) -> None:
        self._sites = sites
        self._conditions = context.conditions
        self._dedup = context.dedup
        self._count_prompts = not context.prompts_counted
        self._named: dict[tuple[int, tuple[int, ...]], list[Named]] = {}
        """The fields of each call, by the order of the values in the prompt."""
        self._unique = count()
        """Numbers that make equal keys different, where equal prompts are not shared."""
        self._seen = [set[bytes]() if site.repeats else None for site in sites]
        """The keys so far of each call whose distinct tuples can have equal keys."""
        self._last_key: dict[int, bytes] = {}
        """The last key of each other call."""

    def pending(self, open_batch: OpenBatch, call: int) -> list[PendingPrompt]:
        """Return a call's prompts for a batch, and add them to the call's counters."""
        batch, step = open_batch.batch, open_batch.step or 0
        prompts = [
            PendingPrompt(key, call, fields, step, [AnswerSlot(open_batch, call, at)], self._is_first_use(call, key))
            for at, fields, key in self._list(batch, call)
        ]
        distinct = sum(prompt.first_use for prompt in prompts)
        expected = distinct if self._count_prompts else 0
        self._sites[call].counters.add(rows=batch.kept, distinct_prompts=distinct, prompts_expected=expected)
        return prompts

    def keys(self, batch: PromptBatch, call: int) -> list[bytes]:
        """Return the keys of a call's prompts for a batch, and count nothing."""
        return [key for _, _, key in self._list(batch, call)]

    def _list(self, batch: PromptBatch, call: int) -> list[tuple[int, Fields, bytes]]:
        """Return the index of each tuple that needs a prompt, with the prompt's fields and key."""
        site = self._sites[call]
        guard = self._guard(batch, site)
        if guard is not None:
            batch.guards[call] = guard
        listed = []
        for tuple_index in np.flatnonzero(batch.needed(guard)).tolist():
            order = batch.orders[tuple_index] if batch.orders else site.order
            fields = given_fields(self._names(call, order), batch.tuples[tuple_index])
            if fields is not None:
                listed.append((tuple_index, fields, self._key(site, fields)))
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
        return key if self._dedup else key + next(self._unique).to_bytes(8)

    def _is_first_use(self, call: int, key: bytes) -> bool:
        """Return whether a call needs a key for the first time, and note that the call needed it."""
        seen = self._seen[call]
        if seen is None:  # equal keys are neighbours here: the last tuple of a batch and the first of the next
            before, self._last_key[call] = self._last_key.get(call), key
            return key != before
        new = key not in seen
        seen.add(key)
        return new
