"""The interface of eviction policies: they learn which blocks prompts use, and choose the next block to evict."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

Key = TypeVar("Key", bound=Hashable)
"""Identifies a block's content: blocks with equal keys have equal tokens in the block and before it."""


@dataclass(frozen=True, slots=True)
class Use(Generic[Key]):
    """A prompt's use of blocks: `keys` are its blocks in order, with those of its answer; `kind` is its call site.

    The planner knows the order of a query's prompts. Later prompts of the query share the first `ahead` of these
    blocks, and do not use the blocks after them. None means unknown.
    """

    keys: Sequence[Key]
    kind: Hashable = ""
    ahead: int | None = None
    query: Hashable = None
    """The query; `number` counts its prompts."""
    number: int = 0
    priority: int = 0
    """Waiting prompts start in the order of this number, the lowest first; equal ones in the order of arrival."""


class EvictionPolicy(Protocol[Key]):
    """A policy that chooses which unused block to evict first. For one thread.

    The caller sets the evictable blocks, only by `free` and `hold`. `queue`, `cancel` and `use` report prompts, with
    any blocks; they change only the order of eviction. Times are in seconds of one monotonic clock.
    """

    def queue(self, use: Use[Key], now: float) -> None:
        """Record a waiting prompt, which needs its blocks until `cancel` is called with it. Does nothing here."""
        del use, now

    def cancel(self, use: Use[Key], now: float) -> None:
        """Record that a prompt no longer waits: it runs, was cancelled, or has ended. Does nothing here.

        `use` must be the same object that `queue` got; another object changes nothing.
        """
        del use, now

    def use(self, use: Use[Key], now: float) -> None:
        """Record that a prompt used its blocks, cached or computed: once, before they are freed.

        The caller can do this when the prompt begins, or when it ends; then the blocks of its answer are included.
        """

    def free(self, key: Key, now: float) -> None:
        """Make a block evictable because no prompt uses it; the caller frees a prompt's last block first."""

    def free_all(self, keys: Sequence[Key], now: float) -> None:
        """Free the blocks of a prompt, the last one first."""
        free = self.free
        for key in reversed(keys):
            free(key, now)

    def hold(self, key: Key) -> None:
        """Make a block not evictable (if it was): a prompt uses it again, or its content is dropped."""

    def evict(self, now: float) -> Key:
        """Return the next block to evict; it is no longer evictable after that.

        Raises:
            KeyError: no block is evictable.
        """

    def __contains__(self, key: object) -> bool:
        """Return whether a block is evictable."""

    def __len__(self) -> int:
        """Return the number of evictable blocks."""
