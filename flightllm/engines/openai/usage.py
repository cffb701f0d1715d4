"""The tokens of HTTP requests, as the endpoint reports them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_MOST_TOKENS: Final = 1 << 31
"""A token count from this number on is a mistake of the endpoint."""
_CACHED: Final = ("prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens", "num_cached_tokens")
"""Names for cached tokens beside OpenAI's `prompt_tokens_details`, such as DeepSeek's."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of HTTP requests; a number is 0 if the endpoint reports none, or an invalid one."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False
    """Whether a number is not the endpoint's own."""
    written_tokens: int = 0
    """The prompt tokens that the endpoint stored for later prompts, if it charges for that."""
    bound: int = 0
    """The most completion tokens; 0 where this is `completion_tokens`."""

    @property
    def most_completion_tokens(self) -> int:
        """Return the most tokens that the answers can have taken."""
        return max(self.bound, self.completion_tokens)

    def __add__(self, other: Usage) -> Usage:
        """Add up the usage of two requests."""
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.completion_tokens + other.completion_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.estimated or other.estimated,
            self.written_tokens + other.written_tokens,
            self.most_completion_tokens + other.most_completion_tokens,
        )


def read_usage(document: Mapping[str, Any]) -> Usage:
    """Return the usage that a body reports.

    Some endpoints count thoughts beside the answer's tokens. Then `total_tokens` has them too, or they are more than
    the answer's tokens.
    """
    usage = document.get("usage")
    if not isinstance(usage, dict):
        return Usage()
    prompt, completion, total = (_tokens(usage.get(f"{one}_tokens")) for one in ("prompt", "completion", "total"))
    details = usage.get("prompt_tokens_details")
    cached = _first(details, "cached_tokens") or _first(usage, *_CACHED)
    written = _first(details, "cache_write_tokens") or _first(usage, "cache_creation_input_tokens")
    reasoning = _first(usage.get("completion_tokens_details"), "reasoning_tokens")
    further = total - prompt - completion
    if prompt and further > 0 and reasoning in {0, further}:
        completion, reasoning = completion + further, further
    elif reasoning > completion and completion and further != 0:
        completion += reasoning
    false = cached > prompt
    cached = 0 if false else cached
    return Usage(prompt, cached, completion, min(reasoning, completion), false, min(written, prompt - cached))


def _first(details: object, *names: str) -> int:
    """Return the first number above 0 under some names, or 0."""
    found = (_tokens(details.get(name)) for name in names) if isinstance(details, dict) else ()
    return next(filter(None, found), 0)


def _tokens(count: object) -> int:
    if isinstance(count, float) and math.isfinite(count) and count.is_integer():
        count = int(count)
    return count if type(count) is int and 0 <= count < _MOST_TOKENS else 0
