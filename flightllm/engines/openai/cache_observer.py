"""Compare the cached tokens that an endpoint reports with those that its cache could have served."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from flightllm.common.newest import Newest
from flightllm.engines.cache_rules import NO_CACHE, CacheRules, end_of_units, served, tokens_of_start
from flightllm.engines.openai.usage import Usage
from flightllm.engines.prefix_memory import PrefixMemory
from flightllm.engines.prompt_parts import PromptParts, starts_of
from flightllm.llm.engine import PrefixCache

_ENOUGH: Final = 100
"""The answers after which forecasts rest on the endpoint's reports."""
_MEMORY: Final = 0.998
"""Factor on the weight of earlier answers at each answer: the last few hundred count."""
_CHARACTERS_OF_A_TOKEN: Final = 4
_MOST_SHARE: Final = 4.0
_REPORTS: Final = 3
"""The reports against the documented rules after which they count: a single one can be a mistake."""
_LEAST_HIT: Final = 64
"""The lowest floor of any provider; a report of fewer cached tokens is a mistake."""
_MOST_COUNTED: Final = 1_024
_NEARLY: Final = 0.95
"""If the cache served so much of the marked start, the start was there, and nothing was stored."""
_MISSES: Final = 5
"""After this number of starts that were stored and not served, marks are a waste."""
_KEYED: Final = 0.9
"""The part of the floor from which a start can name a key, because its tokens are an estimate."""
_SURELY: Final = 1.25
"""A start of this multiple of the floor is surely stored: the estimate of its tokens can be too high."""
_LEAST_LEAD: Final = 1_024
"""For fewer common tokens, one answer's time costs more than it saves."""


class CacheObserver:
    """The cache of one endpoint and model. Thread-safe.

    `rules` are those of a hosted provider. Without rules, the cache is `own`, which the configuration describes.
    """

    def __init__(
        self,
        rules: CacheRules | None,
        own: PrefixCache,
        count: Callable[[str], int],
        around: tuple[int, int] = (0, 0),
    ) -> None:
        """`count` estimates the tokens of a text. `around` are the tokens of the template before and after a text."""
        self.rules = rules
        self._count = count
        self._around = around
        self._own = own
        self._lock = threading.Lock()
        self.marks = True
        """Whether the endpoint accepts marks, where its cache keeps only marked starts."""
        self.implicit = False
        """Whether the endpoint marks the end of each prompt itself, because it refuses the request not to."""
        self._counted = Newest[str, int](_MOST_COUNTED)
        """The estimated tokens of starts."""
        self._low: list[int] = []
        """The two smallest hits below the floor."""
        self._lows = 0
        """The number of hits below the floor."""
        self._starts = 0
        """The hits on starts, where the rules say that only whole prompts are found."""
        self._missed = 0
        """The marked starts in a row that were stored and not served."""
        self._answers = 0
        self._possible = self._reported = 0.0
        """Tokens that the cache could have served, and those that it reported."""
        if rules is None:
            room = (own.blocks or 1 << 20) * own.block_tokens * _CHARACTERS_OF_A_TOKEN
            self._floor, self._memory = own.block_tokens, PrefixMemory(math.inf, room)
        else:
            self._floor, self._memory = (
                rules.floor,
                PrefixMemory(rules.seconds, whole=rules.breakpoints, units=rules.units, cut=self._unit_end),
            )

    @property
    def cache(self) -> PrefixCache:
        """Return the cache as forecasts should see it."""
        if self.rules is None:
            return replace(self._own, share=self.share)
        rules = self.rules
        if rules.breakpoints and self._marking and not (self.marks and self._serves):
            return PrefixCache(1, None, at_once=False, floor_tokens=NO_CACHE.floor)
        return PrefixCache(
            rules.step,
            None,
            at_once=False,
            floor_tokens=self._floor,
            share=self.share,
            whole=rules.breakpoints and not self._marking,
            fee_from=rules.floor if rules.write > 1 else None,
            lead_characters=self.lead_characters,
            breakpoints=rules.breakpoints and self._marking,
            units=rules.units,
            most_marks=rules.most_marks,
            pays_from=rules.pays_from,
            read=rules.read,
            write=rules.write,
            seconds=rules.seconds,
        )

    @property
    def _serves(self) -> bool:
        """Return whether the endpoint serves the starts that it stores, as far as is known."""
        return self._missed < _MISSES

    @property
    def _marking(self) -> bool:
        """Return whether requests say which starts to keep: with marks, or that there is nothing to keep."""
        return not self.implicit

    @property
    def lead_characters(self) -> int:
        """Return from how many common characters on one prompt goes ahead; 0 where that saves nothing."""
        if self.rules is None or self.rules.breakpoints or self.rules.read >= 1 or not self.share:
            return 0
        return max(_LEAST_LEAD, self._floor) * _CHARACTERS_OF_A_TOKEN

    @property
    def leads(self) -> bool:
        """Return whether one prompt goes ahead of others with the same start, or marks what the cache keeps."""
        rules = self.rules
        return rules is not None and (self.lead_characters > 0 or (rules.breakpoints and self._marking))

    @property
    def units(self) -> bool:
        """Return whether two prompts must bring a start before a third one finds it."""
        return self.rules is not None and self.rules.units

    @property
    def share(self) -> float:
        """Return the share of the possible hits that the endpoint reports; 1 until enough answers are known."""
        with self._lock:
            if self._answers < _ENOUGH or not self._possible:
                return 1.0
            return min(_MOST_SHARE, self._reported / self._possible)

    @property
    def memory(self) -> PrefixMemory | None:
        """Return a copy of the texts that a hosted provider's cache can hold now, or None for other endpoints."""
        with self._lock:
            return None if self.rules is None else self._memory.copy()

    def shared(self, text: str, ends: Sequence[int] = ()) -> int:
        """Return how many characters of a text the cache can know now, before the text is sent.

        `ends` are those that the request marks.
        """
        with self._lock:
            return self._memory.shared(text, ends)

    def knows(self, text: str, end: int) -> bool:
        """Return whether the cache can serve the first `end` characters of a text now."""
        with self._lock:
            return self._memory.knows(text, end)

    def starts(self, parts: PromptParts) -> tuple[int, ...]:
        """Return the lengths of the starts of a prompt that the cache should keep, see `starts_of`."""
        if self.rules is None or (self.rules.breakpoints and not (self.marks and self._serves)):
            return ()
        return starts_of(parts, self.cache, self.knows, self._tokens)

    def key_start(self, parts: PromptParts) -> str:
        """Return the shortest start of a prompt that the cache can hold; prompts that can share have it in common.

        A start can be a few tokens longer than its estimate. A longer start than needed would tell apart the prompts
        that share, so that they find nothing of one another.
        """
        ends = (end for end in parts.ends if self._tokens(parts.text[:end]) >= _KEYED * self._floor)
        return parts.text[: next(ends, 0)]

    def _tokens(self, start: str) -> int:
        with self._lock:
            found = self._counted.use(start)
            if found is None:
                found = self._counted[start] = self._count(start)
            return found

    def keep(self, texts: Sequence[str]) -> None:
        """Remember texts that the endpoint has answered without a report about each of them."""
        with self._lock:
            for text in texts:
                self._memory.add(text)

    def answered(self, text: str, shared: int, usage: Usage, counted: int, marks: Sequence[int] = ()) -> None:
        """Learn from the answer to a text, of which the cache could know `shared` characters.

        `counted` are the estimated tokens of the text. `marks` are the ends of the starts that the request marked.
        """
        with self._lock:
            reported = 0 if usage.estimated else usage.cached_tokens + usage.written_tokens
            self._remember(text, marks, reported)
            if usage.estimated or not text:
                return
            cached = usage.cached_tokens
            if self.rules is not None:
                self._correct(self.rules, cached, shared, marked=bool(marks))
            self._answers += 1
            possible = self._cache_tokens(text, shared, usage.prompt_tokens, counted)
            self._possible = self._possible * _MEMORY + possible
            self._reported = self._reported * _MEMORY + cached
            if marks and possible >= _SURELY * self._floor:
                self._missed = 0 if cached else self._missed + 1

    def _remember(self, text: str, marks: Sequence[int], reported: int) -> None:
        """Remember what the cache holds after an answer; the caller holds the lock.

        The endpoint `reported` the tokens of the longest marked start.
        """
        if self.rules is not None and self.rules.breakpoints and self._marking:
            for end in marks:
                self._memory.add(text[:end], reported if end == marks[-1] else 0)
        else:
            self._memory.add(text)

    def _correct(self, rules: CacheRules, cached: int, shared: int, *, marked: bool) -> None:
        """Correct the rules after several hits that they do not allow; the caller holds the lock.

        The floor becomes the second smallest of all hits below it, in whole steps, once there are enough of them: so a
        false report changes nothing.
        """
        if max(rules.step, _LEAST_HIT) <= cached < self._floor:
            self._lows += 1
            self._low = sorted([*self._low, cached])[:2]
            if self._lows >= _REPORTS:
                self._floor = self._low[1] // rules.step * rules.step
        if rules.breakpoints and not marked and not shared and cached >= self._floor:
            self._starts += 1
            if self._starts == _REPORTS:
                self.rules, self._memory.whole = replace(rules, breakpoints=False), False

    def _unit_end(self, text: str, characters: int) -> int:
        """Return where the last whole unit ends in the first characters of a text."""
        before, after = self._around
        tokens = before + self._count(text[:characters]) + (after if characters == len(text) else 0)
        step = self._own.block_tokens if self.rules is None else self.rules.step
        left = tokens % step - after if characters == len(text) else tokens % step  # the template ends a whole text
        return end_of_units(text, characters, max(0, left), step, self._count)

    def _cache_tokens(self, text: str, shared: int, tokens: int, counted: int) -> int:
        """Return how many of a prompt's `tokens` the cache serves if it knows `shared` of its characters."""
        step = self._own.block_tokens if self.rules is None else self.rules.step
        known = tokens_of_start(text, shared, tokens, self._count, counted)
        if self.units:
            known += step // 4  # a unit is whole
        return served(min(tokens - 1, known), self._floor, step)

    def written_tokens(self, usage: Usage, text: str, marks: Sequence[int] = ()) -> int:
        """Return the tokens that the endpoint stored and charges for; by the rules if it does not report them.

        `marks` are the ends of the starts of the sent text that the request marked.
        """
        rules = self.rules
        if usage.written_tokens or rules is None or rules.reports or rules.write == 1.0:
            return usage.written_tokens
        if not (rules.breakpoints and self._marking):
            return usage.prompt_tokens - usage.cached_tokens if usage.prompt_tokens >= rules.floor else 0
        if not marks:
            return 0
        counted = self._count(text)
        marked = tokens_of_start(text, marks[-1], usage.prompt_tokens, self._count, counted)
        found = usage.cached_tokens >= _NEARLY * marked
        return 0 if found or marked < rules.floor else max(0, marked - usage.cached_tokens)
