"""Prompts for the router's simulation: what comes when, by seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

BLOCK_TOKENS: Final = 16
_SYSTEM_TOKENS: Final = 128


@dataclass(frozen=True, slots=True)
class Tools:
    """Prompts as agents send them: a system prompt, a tool's documentation, and a question of its own.

    Which tool is asked follows Zipf's law. Lengths vary by half around their means.
    """

    tools: int = 200
    exponent: float = 1.1
    documentation_tokens: int = 1_400
    question_tokens: int = 250
    answer_tokens: int = 40

    def prompts(self, random: np.random.Generator) -> Iterator[tuple[bytes, int]]:
        """Yield the tokens of prompts and the length of each one's answer, without end."""
        weights = np.arange(1, self.tools + 1) ** -self.exponent
        weights /= weights.sum()
        lengths = _around(random, self.documentation_tokens, self.tools)
        system = _text(random, _SYSTEM_TOKENS)
        documentation = [_text(random, length) for length in lengths.tolist()]
        while True:
            wave = 4_096
            chosen = random.choice(self.tools, wave, p=weights).tolist()
            questions = _around(random, self.question_tokens, wave).tolist()
            answers = _around(random, self.answer_tokens, wave).tolist()
            for tool, question, answer in zip(chosen, questions, answers, strict=True):
                yield system + documentation[tool] + _text(random, question), answer


@dataclass(frozen=True, slots=True)
class Alone:
    """Prompts that share nothing."""

    prompt_tokens: int = 800
    answer_tokens: int = 40

    def prompts(self, random: np.random.Generator) -> Iterator[tuple[bytes, int]]:
        """Yield the tokens of prompts and the length of each one's answer, without end."""
        while True:
            wave = 4_096
            lengths = _around(random, self.prompt_tokens, wave).tolist()
            answers = _around(random, self.answer_tokens, wave).tolist()
            for length, answer in zip(lengths, answers, strict=True):
                yield _text(random, length), answer


def poisson(count: int, rate: float, random: np.random.Generator) -> Iterator[float]:
    """Yield the seconds at which `count` prompts come, so many a second on average."""
    yield from np.cumsum(random.exponential(1 / rate, count)).tolist()


def _around(random: np.random.Generator, mean: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return random.integers(mean // 2, mean + mean // 2 + 1, count)


def _text(random: np.random.Generator, length: int) -> bytes:
    return random.integers(0, 32_000, length, dtype=np.uint32).tobytes()
