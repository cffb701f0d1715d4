"""The worker's side of learning how fast the engine computes: the time of steps that compute prompts."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace
from typing import Any, Final

import torch

from flightllm.kvcache.stream.prefill import Parts, Prefill

_LEAST_TOKENS: Final = 64
"""The fewest tokens of a step that give a useful measurement: steps that only answer compute few tokens each."""
_LEAST_SECONDS: Final = 1e-6
"""The least seconds of a step. After a step of 0 seconds, the next one would be divided by 0."""
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
        self._begun: tuple[Parts, Any] | None = None
        self._ended: deque[tuple[Parts, Any, Any]] = deque(maxlen=_WAITING)
        self._measured = False

    def begin(self, parts: Parts) -> None:
        """Start a step that computes these parts of prompts."""
        self._collect()
        tokens = sum(stop - start for start, stop in parts)
        self._begun = (parts, self._mark()) if tokens >= _LEAST_TOKENS else None

    def end(self) -> None:
        """End the step."""
        if self._begun is not None:
            parts, started = self._begun
            self._ended.append((parts, started, self._mark()))
            self._begun = None
        self._collect()

    def learn(self, parts: Parts, seconds: float) -> None:
        """Learn from a step."""
        seconds = max(seconds, _LEAST_SECONDS)
        if self._measured:
            self.prefill = self.prefill.learned(parts, seconds)
            return
        self._measured = True
        scale = seconds / self.prefill.step(parts)
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
            parts, started, ended = self._ended[0]
            if self._on_gpu and not ended.query():
                return
            self._ended.popleft()
            self.learn(parts, started.elapsed_time(ended) / 1000 if self._on_gpu else ended - started)
