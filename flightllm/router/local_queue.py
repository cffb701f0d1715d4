"""A queue of the prompts of one replica: prompts with more cached tokens come earlier, and no prompt starves."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from flightllm.router.prompt import RoutedPrompt

GROUPS: Final = 10
"""Priority groups by cached share (Preble, P)."""


class LocalQueue:
    """The waiting prompts of one replica. One thread at a time.

    Prompts with the lowest `priority` number come first. Prompts of one priority are in groups by the share of their
    tokens that the replica held on arrival. `pop` draws from all groups, in proportion to each group's rank (Preble,
    section 3.3), so that no group starves. Within a group, the order of arrival holds.
    """

    def __init__(self) -> None:
        self._levels: dict[int, _Groups] = {}

    def __len__(self) -> int:
        """Return the number of waiting prompts."""
        return sum(len(groups) for groups in self._levels.values())

    def push(self, prompt: RoutedPrompt, cached_share: float) -> None:
        """Add a prompt; `cached_share` is the part of its tokens that is cached, from 0 to 1."""
        self._levels.setdefault(prompt.priority, _Groups()).push(prompt, cached_share)

    def pop(self) -> RoutedPrompt | None:
        """Remove and return the next prompt; None if the queue is empty."""
        for priority in sorted(self._levels):
            found = self._levels[priority].pop()
            if found is not None:
                return found
        return None

    def waiting(self) -> list[RoutedPrompt]:
        """Return the waiting prompts by priority number, then in the order of arrival."""
        return [prompt for priority in sorted(self._levels) for prompt in self._levels[priority].waiting()]

    def take(self, prompts: Iterable[RoutedPrompt]) -> None:
        """Remove the given prompts."""
        gone = {prompt.key for prompt in prompts}
        for groups in self._levels.values():
            groups.take(gone)


class _Groups:
    """The waiting prompts of one priority."""

    def __init__(self) -> None:
        self._groups: list[deque[tuple[int, RoutedPrompt]]] = [deque() for _ in range(GROUPS)]
        self._credit = [0.0] * GROUPS
        self._came = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def push(self, prompt: RoutedPrompt, cached_share: float) -> None:
        group = min(GROUPS - 1, max(0, int(cached_share * GROUPS)))
        self._groups[group].append((self._came, prompt))
        self._came += 1
        self._size += 1

    def pop(self) -> RoutedPrompt | None:
        """Draw by smooth weighted round robin.

        Each nonempty group gains its rank as credit. The group with the most credit is drawn from, and pays the credit
        that all groups gained.
        """
        if not self._size:
            return None
        filled = [group for group in range(GROUPS) if self._groups[group]]
        for group in filled:
            self._credit[group] += group + 1
        best = max(filled, key=lambda group: (self._credit[group], group))
        self._credit[best] -= sum(group + 1 for group in filled)
        _, prompt = self._groups[best].popleft()
        if not self._groups[best]:
            self._credit[best] = 0.0
        self._size -= 1
        return prompt

    def waiting(self) -> list[RoutedPrompt]:
        return [prompt for _, prompt in sorted((one for group in self._groups for one in group), key=lambda o: o[0])]

    def take(self, gone: set[int]) -> None:
        self._groups = [deque(one for one in group if one[1].key not in gone) for group in self._groups]
        self._size = sum(map(len, self._groups))
