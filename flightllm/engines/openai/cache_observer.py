"""Compare the cached tokens that an endpoint reports with those that its cache could have served."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from flightllm.engines.cache_rules import CacheRules, served, tokens_of_start
from flightllm.engines.openai.usage import Usage
from flightllm.engines.prefix_memory import PrefixMemory
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
_LEAST_LEAD: Final = 1_024
"""For fewer common tokens, one answer's time costs more than it saves."""


class CacheObserver:
    """The cache of one endpoint and model. Thread-safe.

    `rules` are those of a hosted provider. Without rules, the cache is `own`, which the configuration describes.
    """

    def __init__(self, rules: CacheRules | None, own: PrefixCache, count: Callable[[str], int]) -> None:
        """`count` estimates the tokens of a text."""
        self.rules = rules
        self._count = count
        self._own = own
        self._lock = threading.Lock()
        self._low: list[int] = []
        """The hits below the floor since it was last lowered."""
        self._starts = 0
        """The hits on starts, where the rules say that only whole prompts are found."""
        self._answers = 0
        self._possible = self._reported = 0.0
        """Tokens that the cache could have served, and those that it reported."""
        if rules is None:
            room = (own.blocks or 1 << 20) * own.block_tokens * _CHARACTERS_OF_A_TOKEN
            self._floor, self._memory = own.block_tokens, PrefixMemory(math.inf, room)
        else:
            self._floor, self._memory = rules.floor, PrefixMemory(rules.seconds, whole=rules.whole)

    @property
    def cache(self) -> PrefixCache:
        """Return the cache as forecasts should see it."""
        if self.rules is None:
            return replace(self._own, share=self.share)
        rules = self.rules
        return PrefixCache(
            rules.step,
            None,
            at_once=False,
            floor_tokens=self._floor,
            share=self.share,
            whole=rules.whole,
            fee_from=rules.floor if rules.write > 1 else None,
            lead_characters=self.lead_characters,
        )

    @property
    def lead_characters(self) -> int:
        """Return from how many common characters on one prompt goes ahead; 0 where that saves nothing."""
        if self.rules is None or self.rules.whole or self.rules.read >= 1 or not self.share:
            return 0
        return max(_LEAST_LEAD, self._floor) * _CHARACTERS_OF_A_TOKEN

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

    def shared(self, text: str) -> int:
        """Return how many characters of a text the cache can know now, before the text is sent."""
        with self._lock:
            return self._memory.shared(text)

    def keep(self, texts: Sequence[str]) -> None:
        """Remember texts that the endpoint has answered without a report about each of them."""
        with self._lock:
            for text in texts:
                self._memory.add(text)

    def answered(self, text: str, shared: int, usage: Usage, counted: int) -> None:
        """Learn from the answer to a text, of which the cache could know `shared` characters.

        `counted` are the estimated tokens of the text.
        """
        with self._lock:
            self._memory.add(text)
            if usage.estimated or not text:
                return
            cached = usage.cached_tokens
            if self.rules is not None:
                self._correct(self.rules, cached, shared)
            self._answers += 1
            possible = self._cache_tokens(text, shared, usage.prompt_tokens, counted)
            self._possible = self._possible * _MEMORY + possible
            self._reported = self._reported * _MEMORY + cached

    def _correct(self, rules: CacheRules, cached: int, shared: int) -> None:
        """Correct the rules after several hits that they do not allow; the caller holds the lock.

        The floor becomes the largest of the hits below it, in whole steps: a false report among them changes nothing.
        """
        if max(rules.step, _LEAST_HIT) <= cached < self._floor:
            self._low.append(cached)
            if len(self._low) == _REPORTS:
                self._floor, self._low = max(self._low) // rules.step * rules.step, []
        if rules.whole and not shared and cached >= self._floor:
            self._starts += 1
            if self._starts == _REPORTS:
                self.rules, self._memory.whole = replace(rules, whole=False), False

    def _cache_tokens(self, text: str, shared: int, tokens: int, counted: int) -> int:
        """Return how many of a prompt's `tokens` the cache serves if it knows `shared` of its characters."""
        step = self._own.block_tokens if self.rules is None else self.rules.step
        known = tokens_of_start(text, shared, tokens, self._count, counted)
        return served(min(tokens - 1, known), self._floor, step)

    def written_tokens(self, usage: Usage) -> int:
        """Return the tokens that the endpoint stored and charges for; by the rules if it does not report them."""
        if usage.written_tokens or self.rules is None or self.rules.write == 1.0:
            return usage.written_tokens
        return usage.prompt_tokens - usage.cached_tokens if usage.prompt_tokens >= self.rules.floor else 0
