"""Simulate a hosted provider's prefix cache, which finds the starts of earlier prompts again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from flightllm.engines.cache_rules import served, tokens_of_start
from flightllm.engines.prefix import SimulatedRequest
from flightllm.engines.prefix_memory import PrefixMemory
from flightllm.llm.engine import PrefixCache


class HostedSimulator:
    """Answer up to `at_once` requests in each step. A prompt can be found after its step. One thread.

    `memory` has the texts that the provider knows already, and is changed.
    """

    def __init__(self, shape: PrefixCache, memory: PrefixMemory, at_once: int, count: Callable[[str], int]) -> None:
        """`count` estimates the tokens of a text."""
        self._shape = shape
        self._count = count
        self._memory = memory
        self._at_once = at_once
        self._waiting: deque[SimulatedRequest] = deque()

    def add(self, run: SimulatedRequest) -> None:
        """Queue a request."""
        self._waiting.append(run)

    def step(self) -> list[SimulatedRequest]:
        """Run one step and return the requests that it finished."""
        window = [self._waiting.popleft() for _ in range(min(self._at_once, len(self._waiting)))]
        runs, held = self._admitted(window)
        self._waiting.extendleft(reversed(held))
        for run in runs:
            shared = self._memory.shared(run.text)
            counted = self._count(run.text) if shared else 0
            known = min(run.tokens - 1, tokens_of_start(run.text, shared, run.tokens, self._count, counted))
            run.cached_tokens = served(known, self._shape.floor_tokens, self._shape.block_tokens)
        for run in runs:
            self._memory.add(run.text)
        return runs

    def _admitted(self, window: list[SimulatedRequest]) -> tuple[list[SimulatedRequest], list[SimulatedRequest]]:
        """Return the requests that are sent now, and those that wait for one with the same start."""
        length = self._shape.lead_characters
        if not length:
            return window, []
        runs: list[SimulatedRequest] = []
        held: list[SimulatedRequest] = []
        leading: set[str] = set()
        for run in window:
            start = run.text[:length]
            leads = len(run.text) >= length and self._memory.shared(run.text) < length
            (held if leads and start in leading else runs).append(run)
            if leads:
                leading.add(start)
        return runs, held
