"""Simulate a hosted provider's prefix cache, which finds the starts of earlier prompts again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from flightllm.common.newest import Newest
from flightllm.engines.cache_rules import end_of_common_tokens, served, tokens_of_start
from flightllm.engines.prefix import SimulatedRequest
from flightllm.engines.prefix_memory import PrefixMemory
from flightllm.engines.prompt_parts import PromptParts, starts_of
from flightllm.llm.engine import PrefixCache

_MOST_COUNTED: Final = 1_024


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
        self._counted = Newest[str, int](_MOST_COUNTED)
        """The estimated tokens of starts."""
        self._waiting: deque[SimulatedRequest] = deque()

    def add(self, run: SimulatedRequest) -> None:
        """Queue a request."""
        self._waiting.append(run)

    def step(self) -> list[SimulatedRequest]:
        """Run one step and return the requests that it finished."""
        window = [self._waiting.popleft() for _ in range(min(self._at_once, len(self._waiting)))]
        runs, held = self._admitted(window)
        self._waiting.extendleft(reversed(held))
        for run, starts in runs:
            self._serve(run, starts)
        for run, starts in runs:
            text = "" if run.parts is None else run.parts.text
            for kept in [text[:end] for end in starts] if self._shape.breakpoints else [text]:
                self._memory.add(kept)
        return [run for run, _ in runs]

    def _serve(self, run: SimulatedRequest, starts: Sequence[int]) -> None:
        """Note how many tokens of a prompt the cache serves and stores."""
        shape, parts = self._shape, run.parts or PromptParts("")
        text = parts.text
        shared = self._memory.shared(text, starts)
        counted = self._count(text) if shared or starts else 0

        def tokens(end: int) -> int:
            reported = self._memory.tokens(text[:end])
            known = reported or tokens_of_start(text, end, run.tokens, self._count, counted, parts.before, parts.after)
            known = min(
                run.tokens - 1, known + shape.block_tokens // 4 if shape.units else known
            )  # as a unit, it is whole
            return served(known, shape.floor_tokens, shape.block_tokens)

        found = shared if shape.breakpoints or shape.units else end_of_common_tokens(text, shared)
        run.cached_tokens = min(run.tokens - 1, round(tokens(found) * shape.share))
        if shape.breakpoints:
            run.written_tokens = max(0, tokens(starts[-1]) - run.cached_tokens) if starts else 0
        elif shape.fee_from is not None and run.tokens >= shape.fee_from:
            run.written_tokens = run.tokens - run.cached_tokens

    def _admitted(
        self, window: list[SimulatedRequest]
    ) -> tuple[list[tuple[SimulatedRequest, tuple[int, ...]]], list[SimulatedRequest]]:
        """Return the requests that are sent now with their starts, and those that wait for one with the same start."""
        runs: list[tuple[SimulatedRequest, tuple[int, ...]]] = []
        held: list[SimulatedRequest] = []
        leading: set[str] = set()
        for run in window:
            parts = run.parts
            starts = () if parts is None else starts_of(parts, self._shape, self._memory.knows, self._tokens)
            text = "" if parts is None else parts.text
            new = [text[:end] for end in starts if not self._memory.knows(text, end)]
            if leading.intersection(new):
                held.append(run)
            else:
                runs.append((run, starts))
                leading.update(new)
        return runs, held

    def _tokens(self, start: str) -> int:
        found = self._counted.use(start)
        if found is None:
            found = self._counted[start] = self._count(start)
        return found
