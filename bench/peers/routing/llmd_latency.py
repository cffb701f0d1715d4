"""llm-d's latency predictor: a model learned online predicts the seconds of each answer on each replica."""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.peers.routing.llmd import cached_share
from bench.simulation import ObservingRouter
from flightllm.router.fleet import Assigned, Fleet
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.tree import Node

_STRICT, _LOOSE = 0.99, 0.80
"""The shares of a prompt from which a replica counts as one that holds it."""
_PENALTY: Final = 5.0
"""The most seconds that such a replica can be slower than the best other one."""
_STEPS: Final = 100
_SAMPLES: Final = 2_000
_REFIT: Final = 64
_FEWEST: Final = 32
_RIDGE: Final = 1e-3


class LlmDLatency(ObservingRouter):
    """llm-d's profile with the latency predictor, without service objectives.

    Two filters keep the replicas that hold at least 0.99, then 0.80 of the prompt. A filter keeps all if its best
    replica is predicted to be more than five seconds slower than the best other one. Idle replicas go first. The others
    get a score from 1/100 to 101/100 by predicted seconds. The score is the chance of the replica.

    Source: github.com/llm-d/llm-d-router at ebab687 (after v0.9.0): `latency-scorer`, `prefix-cache-affinity-filter`,
    `weighted-random-picker`, `predicted-latency-producer` with `streamingMode: false`, and the chart with all of them.
    The model is ridge regression, one of the kinds that llm-d's predictor has, over the same features and products of
    them. Left out: XGBoost, which is the predictor's default, and its time to predict.
    """

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self._random = np.random.default_rng(0)
        self._samples: deque[tuple[NDArray[np.float64], float]] = deque(maxlen=_SAMPLES)
        self._asked: dict[int, tuple[NDArray[np.float64], float]] = {}
        self._prefilling: dict[int, tuple[int, int]] = {}
        self._prefill: NDArray[np.float64] = np.zeros(0)
        self._decoding: NDArray[np.float64] = np.zeros(0)
        self._weights: NDArray[np.float64] | None = None
        self._new = 0

    def choose(self, prompt: RoutedPrompt, leaf: Node, now: float) -> int:
        """Return a replica, drawn by the scores."""
        if len(self._prefill) < len(self.fleet.load):
            self._prefill, self._decoding = np.zeros(len(self.fleet.load)), np.zeros(len(self.fleet.load))
        share = cached_share(self.fleet, prompt, leaf, 0)
        known = self._features(prompt, share)
        candidates = np.arange(len(share))
        if self._weights is None:
            chosen = int(self._fallback(share).argmax())
        else:
            seconds = known @ self._weights
            for least in (_STRICT, _LOOSE):
                candidates = _holding(candidates, share, seconds, least)
            chosen = self._draw(candidates, seconds)
        self._asked[prompt.key] = known[chosen], now
        uncached = int(prompt.count * (1.0 - share[chosen]))
        self._prefilling[prompt.key] = chosen, uncached
        self._prefill[chosen] += uncached
        return chosen

    def _fallback(self, share: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores before there is a model."""
        waiting = self.reports.waiting
        scores: NDArray[np.float64] = (1.0 - self.reports.used) + (1.0 - waiting / max(1, waiting.max())) + share
        return scores

    def _draw(self, candidates: NDArray[np.int64], seconds: NDArray[np.float64]) -> int:
        idle = candidates[self.fleet.requests[candidates] == 0]
        candidates = idle if len(idle) else candidates
        seconds = seconds[candidates]
        width = seconds.max() - seconds.min()
        place = (seconds - seconds.min()) / width if width > 0 else np.full(len(seconds), 0.5)
        scores = np.floor((1.0 - place) * _STEPS) + 1
        return int(self._random.choice(candidates, p=scores / scores.sum()))

    def _features(self, prompt: RoutedPrompt, share: NDArray[np.float64]) -> NDArray[np.float64]:
        reports = self.reports
        uncached = prompt.count * (1.0 - share) / 1_000
        running = reports.running / 10
        columns = (
            *(
                np.ones(len(share)),
                np.full(len(share), prompt.count / 1_000),
                np.full(len(share), prompt.answer_tokens),
            ),
            *(share, uncached, reports.used, reports.waiting / 10, running, uncached * running),
            *(self._prefill / 1_000, self._decoding / 1_000),
        )
        return np.stack(columns, axis=1)

    def answering(self, key: int, now: float) -> None:
        """Count a prompt as decoding."""
        del now
        replica, uncached = self._prefilling[key]
        self._prefill[replica] -= uncached
        self._decoding[replica] += self.fleet.open[key].prompt.count

    def answered(self, one: Assigned, tokens: int, now: float) -> None:
        """Learn from the seconds of an answer."""
        del tokens
        key = one.prompt.key
        replica, _ = self._prefilling.pop(key)
        self._decoding[replica] -= one.prompt.count
        known, asked = self._asked.pop(key)
        self._samples.append((known, now - asked))
        self._new += 1
        if self._new >= _REFIT and len(self._samples) >= _FEWEST:
            self._new = 0
            features = np.stack([features for features, _ in self._samples])
            seconds = np.array([seconds for _, seconds in self._samples])
            moments = features.T @ features + _RIDGE * len(features) * np.eye(features.shape[1])
            self._weights = np.linalg.solve(moments, features.T @ seconds)


def _holding(
    candidates: NDArray[np.int64], share: NDArray[np.float64], seconds: NDArray[np.float64], least: float
) -> NDArray[np.int64]:
    """Return the candidates that hold this share of a prompt; or all, if these are missing or too slow."""
    holds = share[candidates] >= least
    if not holds.any():
        return candidates
    inside, outside = candidates[holds], candidates[~holds]
    if len(outside) and seconds[inside].min() - seconds[outside].min() > _PENALTY:
        return candidates
    return inside
