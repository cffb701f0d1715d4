"""Prompts and fleets for tests of routing."""

from collections.abc import Sequence

from flightllm.router.fleet import Fleet
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.tree import pack

BLOCK = 4


def prompt(
    key: int, tokens: Sequence[int], answer_tokens: int = 8, salt: bytes = b"", priority: int = 0
) -> RoutedPrompt:
    """Return a prompt of some tokens."""
    return RoutedPrompt(key, pack(tokens), answer_tokens, salt, priority)


def fleet(replicas: int, capacity: int | None = None, window_seconds: float = 180.0) -> Fleet:
    """Return a fleet with blocks of four tokens."""
    made = Fleet(BLOCK, window_seconds=window_seconds)
    for _ in range(replicas):
        made.add(capacity)
    return made


def assign(fleet: Fleet, one: RoutedPrompt, replica: int, now: float = 0.0) -> None:
    """Give a prompt to a replica."""
    fleet.assign(one, fleet.insert(one), replica, now)
