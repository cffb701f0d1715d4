"""The worker's side of learning how fast the engine computes: the time of steps that compute prompts."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace
from typing import Any, Final

import torch

from flightllm.kvcache.stream.prefill import Prefill

_LEAST_TOKENS: Final = 64
"""The fewest tokens of a step that give a useful measurement: steps that only answer compute few tokens each."""
_WAITING: Final = 16
"""The most steps that wait for the device. Beyond this number, the oldest is dropped."""


class StepTimer:
    """Learns the seconds that the engine needs for a prompt's token. Only the worker's thread must use it.

    On a GPU, events in the stream give the time, and no step waits for them. The first measurement replaces the
    assumed speed.
    """

    def __init__(self, prefill: Prefill, device: torch.device) -> None:
        self.prefill = prefill
        self._on_gpu = device.type == "cuda"
        self._begun: tuple[int, Any] | None = None
        self._ended: deque[tuple[int, Any, Any]] = deque(maxlen=_WAITING)
        self._measured = False

    def begin(self, tokens: int) -> None:
        """Start a step that computes so many tokens."""
        self._collect()
        self._begun = (tokens, self._mark()) if tokens >= _LEAST_TOKENS else None

    def end(self) -> None:
        """End the step."""
        if self._begun is not None:
            tokens, started = self._begun
            self._ended.append((tokens, started, self._mark()))
            self._begun = None
        self._collect()

    def learn(self, tokens: int, seconds: float) -> None:
        """Learn from a step."""
        if self._measured:
            self.prefill = self.prefill.learned(0, tokens, seconds)
            return
        self._measured = True
        scale = seconds / self.prefill(0, tokens)
        rates = self.prefill.rates
        rates = rates._replace(call=scale * rates.call, computed=scale * rates.computed)
        self.prefill = replace(self.prefill, rates=rates)

    def _mark(self) -> Any:
        if not self._on_gpu:
            return time.monotonic()
        event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def _collect(self) -> None:
        while self._ended:
            tokens, started, ended = self._ended[0]
            if self._on_gpu and not ended.query():
                return
            self._ended.popleft()
            self.learn(tokens, started.elapsed_time(ended) / 1000 if self._on_gpu else ended - started)
