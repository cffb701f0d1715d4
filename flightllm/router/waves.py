"""How many of a query's prompts are routed together."""

from __future__ import annotations

from typing import Final

_FIRST: Final = 64
"""Prompts that are routed at first, for each replica, so that all have work soon; later twice as many as before."""
_MOST: Final = 1_024
"""Prompts that are routed together later on: meanwhile no replica is handed anything."""


def wave_size(before: int, replicas: int, horizon: int) -> int:
    """Return how many prompts to route together after so many the time before; 0: none were."""
    return max(before, min(_MOST, 2 * before)) if before else min(_FIRST * replicas, horizon // 2)
