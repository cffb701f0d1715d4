"""The parts that the providers' caches share: what a request reads and writes, and a store of prefixes with a life."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from bench.bill.prompt import Prompt


@dataclass(frozen=True, slots=True)
class Split:
    """How many of a prompt's tokens are read from the cache, and how many are written for a fee.

    Tokens that are neither have the price of input. `long` are those of the written ones that are kept for an hour.
    """

    read: int = 0
    written: int = 0
    long: int = 0


class Cache(Protocol):
    """A provider's prefix cache. One request at a time calls it."""

    def arrive(self, prompt: Prompt, now: float) -> Split:
        """Return what a request reads and writes when it arrives; `now` is in seconds."""

    def begin(self, prompt: Prompt, now: float) -> None:
        """Keep what a request wrote, now that its answer begins."""


class Prefixes:
    """Prefixes by their tokens, each with the time of its last use and its life in seconds."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], tuple[float, float]] = {}

    def find(self, key: str, prefix: int, now: float) -> bool:
        """Return whether the prefix of this hash is kept under a key; each use begins its life again."""
        found = self._kept.get((key, prefix))
        if found is None or now - found[0] > found[1]:
            return False
        self._kept[key, prefix] = now, found[1]
        return True

    def keep(self, key: str, prefix: int, now: float, seconds: float) -> None:
        """Keep a prefix; it ends `seconds` after its last use."""
        self._kept[key, prefix] = now, seconds


def steps(prompt: Prompt, size: int) -> list[int]:
    """Return the hashes of the prefixes of `size`, 2 `size`, 3 `size` … tokens."""
    found, whole = [], 0
    for start in range(0, len(prompt.tokens) - size + 1, size):
        whole = hash((whole, prompt.tokens[start : start + size]))
        found.append(whole)
    return found


class Automatic:
    """A cache without breakpoints: a prompt finds the longest start of an earlier prompt again, in whole steps.

    The start must have `floor` tokens. The last token is always computed. Without `needs_key`, prompts with different
    keys stay apart too, because a provider routes by the key.
    """

    def __init__(self, floor: int, step: int, seconds: float, *, needs_key: bool = False) -> None:
        self._floor, self._step, self._seconds, self._needs_key = floor, step, seconds, needs_key
        self._prefixes = Prefixes()

    def arrive(self, prompt: Prompt, now: float) -> Split:
        """Return the tokens that an earlier prompt has left."""
        if self._needs_key and not prompt.key:
            return Split()
        found = 0
        for number, prefix in enumerate(steps(prompt, self._step), 1):
            if number * self._step >= len(prompt.tokens) or not self._prefixes.find(prompt.key, prefix, now):
                break
            found = number * self._step
        return Split(found if found >= self._floor else 0)

    def begin(self, prompt: Prompt, now: float) -> None:
        """Keep all starts of a prompt that reaches the floor."""
        if len(prompt.tokens) < self._floor:
            return
        for prefix in steps(prompt, self._step):
            self._prefixes.keep(prompt.key, prefix, now, self._seconds)
