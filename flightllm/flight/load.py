"""The load of a server, for metrics."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """The running and the waiting statements, the open sessions, and the bytes received and refusals so far."""

    draining: bool
    running: int
    left_behind: int
    """The number of running statements that could not be stopped; no client waits for them."""
    places: int
    queued: int
    waits: int
    """The number of places taken so far; `waited_seconds` is the total wait for them."""
    waited_seconds: float
    sessions: int
    received_bytes: int
    refusals: Mapping[str, int]
    """The number of refusals by each limit."""
