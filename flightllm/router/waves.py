"""Choose how many prompts of a query to route together."""

from __future__ import annotations

from typing import Final

_FIRST: Final = 64
"""The first wave's prompts for each replica: the wave is small so that all replicas have work soon."""


def wave_size(replicas: int, horizon: int, *, first: bool) -> int:
    """Return how many prompts to route together.

    Later waves have half of `horizon`: the more prompts a policy sees at once, the better it divides them.
    """
    return min(_FIRST * replicas, horizon // 2) if first else horizon // 2
