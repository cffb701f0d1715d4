"""How hosted providers cache the starts of prompts, and what they charge: from their documentation of autumn 2026.

No provider promises a hit. The rules say what can be a hit; the engine then learns which share of it the endpoint
reports, see `cache_observer`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

_MINUTE, _HOUR = 60.0, 3_600.0


@dataclass(frozen=True, slots=True)
class CacheRules:
    """The cache of one kind of model.

    A prompt finds the start of an earlier prompt again, in steps of `step` tokens. The start must have at least `floor`
    tokens, and must have been used in the last `seconds`. `read` and `write` are factors on the price of input, for
    models without known prices: the price of a token that was found, and of one that was stored.
    """

    floor: int
    step: int
    read: float
    write: float = 1.0
    seconds: float = 5 * _MINUTE
    breakpoints: bool = False
    """Whether the cache keeps only starts that end at a marked place, and finds only these again."""
    implicit: bool = True
    """With `breakpoints`: whether the provider itself marks the end of the last message, unless the request says no."""
    most_marks: int = 4
    """With `breakpoints`: the most marked places of a request."""
    units: bool = False
    """Whether a prompt finds only whole units: earlier prompts, and starts that two earlier prompts had in common."""
    key: bool = False
    """Whether requests must name a common key, as `prompt_cache_key`."""
    routed: bool = False
    """Whether a common key, as `prompt_cache_key`, sends requests to the server that has their start."""
    reports: bool = False
    """Whether the provider reports the tokens that it stores."""

    @property
    def pays_from(self) -> int:
        """Return from how many prompts on with a common start it is cheaper to store the start."""
        saved = 1.0 - self.read
        if self.units:
            return 3
        return 1 << 40 if saved <= 0 else 1 + max(1, ceil((self.write - 1.0) / saved - 1e-9))


NO_CACHE: Final = CacheRules(1 << 40, 1, 1.0)
"""No request finds anything: Anthropic's own API has a prefix cache, but not its OpenAI-compatible API."""
_OPENAI: Final = CacheRules(1_024, 128, 0.1, routed=True)
_OPENAI_FROM_5_6: Final = CacheRules(1_024, 1, 0.1, 1.25, 30 * _MINUTE, breakpoints=True, routed=True)
"""A start is not rounded to whole steps. A key is needed for reliable hits."""
_GEMINI_2: Final = CacheRules(2_048, 1, 0.1)
_GEMINI: Final = CacheRules(4_096, 1, 0.1)
_DEEPSEEK: Final = CacheRules(64, 64, 0.1, seconds=_HOUR, units=True)
"""Source: DeepSeek's guide to context caching, autumn 2026. It also cuts long prompts into units of unknown length."""
_MISTRAL: Final = CacheRules(64, 64, 0.1, key=True)
_GROQ: Final = CacheRules(1_024, 128, 0.5, seconds=2 * _HOUR)
"""Groq's floor depends on the model: 128 to 1,024 tokens."""
_HALF: Final = CacheRules(1_024, 128, 0.5)
"""Fireworks and Together name no floor; this is that of most providers."""
_CLAUDE: Final = CacheRules(1_024, 1, 0.1, 1.25, breakpoints=True, implicit=False, reports=True)
"""Anthropic's native API; the floor depends on the model."""
_MOST_OF_A_TOKEN: Final = 12
"""More characters than the tokens of a text have on average."""
_SEARCHED: Final = 64
_LAST_WORD = re.compile(r" +[A-Za-z0-9]{0,16}\Z|(?<![A-Za-z0-9])[A-Za-z0-9]{1,16}\Z")
"""The last word, and the spaces before it. A longer run of letters has several tokens."""
_GPT = re.compile(r"(?:^|/)gpt-(\d+)(?:\.(\d+))?")
_GEMINI_NAME = re.compile(r"(?:^|/)gemini-(\d+)")
_BY_VENDOR: Final = ("openai", "deepseek", "mistral", "gemini", "anthropic")


def rules_of(provider: str, model: str) -> CacheRules | None:
    """Return the rules of a provider for a model; None for an endpoint with a cache of its own kind."""
    match provider:
        case "openai" | "azure":
            return _OPENAI_FROM_5_6 if _from_5_6(model) else _OPENAI
        case "anthropic":
            return NO_CACHE
        case "gemini":
            found = _GEMINI_NAME.search(model)
            return _GEMINI_2 if found and int(found[1]) < 3 else _GEMINI
        case "deepseek":
            return _DEEPSEEK
        case "mistral":
            return _MISTRAL
        case "groq":
            return _GROQ
        case "fireworks" | "together":
            return _HALF
        case "openrouter":
            return _of_vendor(model)
        case _:
            return None


def claude_rules(floor: int) -> CacheRules:
    """Return the rules of Anthropic's native API for a model whose cache begins at `floor` tokens."""
    return replace(_CLAUDE, floor=floor)


def _from_5_6(model: str) -> bool:
    found = _GPT.search(model.lower())
    return found is not None and (int(found[1]), int(found[2] or 0)) >= (5, 6)


def _of_vendor(model: str) -> CacheRules:
    """Return the rules of a router's model, such as `deepseek/deepseek-chat`; unknown vendors count as uncached."""
    vendor = model.lower().partition("/")[0].removesuffix("ai")
    name = {"google": "gemini", "open": "openai"}.get(vendor, vendor)
    found = rules_of(name, model) if name in _BY_VENDOR else None
    return NO_CACHE if found is None or found.key else found


def tokens_of_start(
    text: str,
    characters: int,
    tokens: int,
    count: Callable[[str], int],
    counted: int,
    before: int = 0,
    after: int = 0,
) -> int:
    """Return how many of a text's `tokens` its first `characters` have.

    `count` estimates the tokens of a text, and `counted` is its result for the whole text. The start can be in another
    language than the rest, so the share of the characters would be wrong. `before` and `after` are the tokens of the
    chat template around the text.
    """
    if not 0 < characters < len(text):
        return tokens if characters else 0
    return tokens * (before + count(text[:characters])) // max(1, before + counted + after)


def end_of_common_tokens(text: str, characters: int) -> int:
    """Return where the last token ends that texts have in common, if they share these `characters` of a text.

    The word that the texts go on with is another token, and so is the space before it.

    Example: `guide: Who` and `guide: What` share `guide: Wh`, and the tokens of `guide:`.
    """
    if characters >= len(text):
        return characters
    word = _LAST_WORD.search(text, max(0, characters - _SEARCHED), characters)
    return characters if word is None else word.start()


def end_of_units(text: str, characters: int, tokens: int, step: int, count: Callable[[str], int]) -> int:
    """Return where the last whole unit of `step` tokens ends in the first `characters` of a text.

    These characters have `tokens`, with those of the chat template.

    Example: the first 700 characters have 150 tokens. With steps of 64, 22 tokens are beyond the last unit: these are
    the last ones, of about 100 characters.
    """
    left = tokens % step
    low, high = max(0, characters - left * _MOST_OF_A_TOKEN), characters
    while low < high:
        middle = (low + high + 1) // 2
        if count(text[middle:characters]) >= left:
            low = middle
        else:
            high = middle - 1
    return low


def served(tokens: int, floor: int, step: int) -> int:
    """Return the part of `tokens` that a cache serves: nothing below `floor`, otherwise whole steps."""
    return 0 if tokens < floor else tokens // step * step
