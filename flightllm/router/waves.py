"""How many of a query's prompts are routed together."""

from __future__ import annotations

from typing import Final

_FIRST: Final = 64
"""Prompts that are routed at first, for each replica, so that all have work soon."""


def wave_size(replicas: int, horizon: int, *, first: bool) -> int:
    """Return how many prompts to route together.

    Later waves are half of what may be open: the more a policy sees at once, the better it divides them.
    """
    return min(_FIRST * replicas, horizon // 2) if first else horizon // 2
