"""What a server is doing, for metrics."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """The statements at work and those that wait, the open sessions, and what was received and refused so far."""

    draining: bool
    running: int
    left_behind: int
    """Of those at work, how many cannot be stopped, though nobody waits for them any more."""
    places: int
    queued: int
    waits: int
    """Places handed out so far, and the seconds they were waited for in all."""
    waited_seconds: float
    sessions: int
    received_bytes: int
    refusals: Mapping[str, int]
    """How often each limit refused something."""
