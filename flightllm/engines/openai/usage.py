"""The tokens of HTTP requests, as the endpoint reports them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_MOST_TOKENS: Final = 1 << 31
"""A token count from this number on is a mistake of the endpoint."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of HTTP requests; a number is 0 if the endpoint reports none, or an invalid one."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False
    """Whether a number is not the endpoint's own."""
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
    cached = _tokens(_within(usage, "prompt_tokens_details", "cached_tokens"))
    reasoning = _tokens(_within(usage, "completion_tokens_details", "reasoning_tokens"))
    further = total - prompt - completion
    if prompt and further > 0 and reasoning in {0, further}:
        completion, reasoning = completion + further, further
    elif reasoning > completion and completion and further != 0:
        completion += reasoning
    false = cached > prompt
    return Usage(prompt, 0 if false else cached, completion, min(reasoning, completion), estimated=false)


def _within(usage: Mapping[str, Any], group: str, name: str) -> object:
    details = usage.get(group)
    return details.get(name) if isinstance(details, dict) else None


def _tokens(count: object) -> int:
    if isinstance(count, float) and math.isfinite(count) and count.is_integer():
        count = int(count)
    return count if type(count) is int and 0 <= count < _MOST_TOKENS else 0
