"""What every eviction policy offers: it is told what prompts use, and says which block goes next."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

Key = TypeVar("Key", bound=Hashable)
"""Stands for what a block holds: equal keys have equal tokens in the block and before it."""


@dataclass(frozen=True, slots=True)
class Use(Generic[Key]):
    """A prompt and its blocks, which are `keys`, in order, its answer's too; `kind` is its class, as its call site.

    A query's prompts come in an order that its planner knows. Prompts that are still to come have the first `ahead` of
    these blocks too, and none has those behind; None: nobody knows.
    """

    keys: Sequence[Key]
    kind: Hashable = ""
    ahead: int | None = None
    query: Hashable = None
    """The query, whose prompts are numbered by `number`."""
    number: int = 0
    priority: int = 0
    """Of prompts that wait those with a lower one begin first, of these the one that came first."""


class Policy(Protocol[Key]):
    """Says which block goes first of those that nobody uses. For one thread.

    Which blocks may go its caller says, by `free` and `hold` alone. `queue`, `cancel` and `use` tell what is known of
    prompts, of any blocks, and change no more than which of them goes first. Times are those of one clock, in seconds,
    that never goes back.
    """

    def queue(self, use: Use[Key], now: float) -> None:
        """Take note of a prompt that waits, and needs its blocks until `cancel` is told of it. Does nothing here."""
        del use, now

    def cancel(self, use: Use[Key], now: float) -> None:
        """Take note that a prompt waits no longer: it runs, or will not, or has ended. Does nothing here.

        `use` is the very object that `queue` was given; of another one nothing is known, and nothing changes.
        """
        del use, now

    def use(self, use: Use[Key], now: float) -> None:
        """Take note that a prompt used its blocks, found or computed: once, before those it held come free.

        That may be when it begins, or when it ends, so that the blocks of its answer are among them.
        """

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
