"""What every eviction policy offers: it is told what prompts use, and says which block goes next."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

Key = TypeVar("Key", bound=Hashable)
"""Stands for what a block holds: equal keys have equal tokens in the block and before it."""


@dataclass(frozen=True, slots=True)
class Use(Generic[Key]):
    """A prompt that begins to use its blocks, which are `keys`, in order; `kind` is its class, as its call site."""

    keys: Sequence[Key]
    kind: Hashable = ""


class Policy(Protocol[Key]):
    """Says which block goes first of those that nobody uses. For one thread.

    Times are those of one clock, in seconds, that never goes back.
    """

    def use(self, use: Use[Key], now: float) -> None:
        """Take note that a prompt uses its blocks from now on, whether they were found or are to be computed."""

    def free(self, key: Key, now: float) -> None:
        """Count a block among those that may go, as nobody uses it any more; a prompt's last one first."""

    def hold(self, key: Key) -> None:
        """Count a block among those that may go no longer, if it is one: it is used again, or what it held is gone."""

    def evict(self, now: float) -> Key:
        """Return the block that goes next, which does not count among those that may go any longer.

        Raises:
            KeyError: there is none.
        """

    def __contains__(self, key: object) -> bool:
        """Tell whether a block may go."""

    def __len__(self) -> int:
        """Return how many may go."""
