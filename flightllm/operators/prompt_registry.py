"""Find existing answers, and make sure that each other prompt is sent once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flightllm.operators.call_context import CallContext, CallSite
from flightllm.operators.pending_prompt import PendingPrompt
from flightllm.operators.rows import Reading, Said, read_answer


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
    | `_sent_here` | comes to this pass |
    | `_sent_elsewhere` | comes to another query of the server, which then shares it |
    | none of them | does not exist: this pass sends the prompt |
    """

    def __init__(self, context: CallContext, sites: Sequence[CallSite]) -> None:
        self._cache = context.binding.cache
        self._leases = context.leases
        self._sites = sites
        self._sent_here: dict[bytes, PendingPrompt] = {}
        self._sent_elsewhere: dict[bytes, PendingPrompt] = {}
        self._failed: dict[bytes, str] = {}
        self._cut: dict[bytes, Said] = {}
        """Answers that the token limit cut short. Only this pass uses them: another limit gives another answer."""

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

    def answer(self, prompt: PendingPrompt, lookup: Lookup) -> Reading | None:
        """Return the answer of a prompt, or None if no usable one is known."""
        key, site = prompt.key, self._sites[prompt.call]
        if key in lookup.cached:
            reading = read_answer(site.ai, Said(lookup.cached[key]))
            if reading.failure is None:
                site.counters.add(cache_hits=prompt.first_use)
                return reading
            lookup.leased.update(self._leases.acquire([key]))
        if key not in self._cut and key not in self._failed:
            return None
        reused = self._answer_of_this_pass(prompt)
        if reused is not None:
            self._leases.release([key])
        return reused

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

    def record(self, prompt: PendingPrompt, said: Said, reading: Reading) -> None:
        """Cache the answer to a prompt of this pass, and share it with the queries that wait for it."""
        key = prompt.key
        del self._sent_here[key]
        kept = said.text if reading.failure is None and said.cut is None else None
        if said.cut is not None and prompt.repair is None:
            self._cut[key] = said
        elif reading.failure is not None:
            self._failed[key] = reading.failure
        elif kept is not None:
            self._cache.put(key, kept)
        self._leases.complete(key, kept)

    def shared_answers(self) -> Iterator[tuple[PendingPrompt, Reading | None]]:
        """Yield the prompts whose owners are done, each with its answer or with None if this pass must look again."""
        for key, text in self._leases.take_answers().items():
            prompt = self._sent_elsewhere.pop(key, None)
            if prompt is None:
                continue
            site = self._sites[prompt.call]
            reading = read_answer(site.ai, Said(text))
            if reading.failure is None:
                site.counters.add(cache_hits=1)
                yield prompt, reading
            else:
                yield prompt, None

    def _answer_of_this_pass(self, prompt: PendingPrompt) -> Reading | None:
        """Return an earlier answer of this pass: a failure, or a text that the token limit cut."""
        key, site = prompt.key, self._sites[prompt.call]
        said = self._cut.get(key)
        if said is not None and said.cut is not None:
            limit = site.ai.max_tokens(prompt.fields) or site.ai.parameters.max_tokens
            if limit > said.cut:
                del self._cut[key]  # this call leaves more room for an answer than the earlier call did
        if key in self._failed:
            return Reading(None, self._failed[key])
        if key not in self._cut:
            return None
        reading = read_answer(site.ai, self._cut[key])
        site.counters.add(cache_hits=prompt.first_use and reading.failure is None)
        return reading
