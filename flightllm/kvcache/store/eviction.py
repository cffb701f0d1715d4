"""The order in which a full store evicts chunks: by a policy for blocks, and each prompt from its end."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flightllm.errors import ConfigError
from flightllm.kvcache.eviction import POLICIES, create_policy
from flightllm.kvcache.eviction.adaptive import Adaptive
from flightllm.kvcache.eviction.base import Use
from flightllm.kvcache.eviction.memory import Memory

CHUNK_POLICIES: Final = tuple(name for name in POLICIES if name != "planned")
"""The policies for chunks. Nobody tells a store the coming prompts, so `planned` has no meaning there."""
_CHUNK_BYTES: Final = 1 << 20
"""The assumed size of a chunk; policies that remember evicted chunks remember as many as the store then has."""
_REMEMBERED: Final = 65_536
"""The most chunks whose prompt is remembered."""
_PLACES: Final = 1 << 16
"""The marks of one turn: chunks of a prompt get marks that fall with their places."""
_TURN_SECONDS: Final = 60.0
"""The time for which uses of a prompt's chunks belong to one turn."""


@dataclass(slots=True, eq=False)
class _Prompt:
    """The chunks of a prompt in their order, and when they were last used."""

    keys: Sequence[str]
    turn: int = 0
    since: float = 0.0


class ChunkOrder:
    """The chunks of a store in the order of eviction. For one thread.

    A chunk is of no use without the chunks before it. A lookup tells the chunks of a prompt in their order. So a use of
    a chunk is also a use of those before it, and they stay longer than it. A chunk that the policy chooses waits until
    no chunk right after it is held.
    """

    def __init__(
        self,
        policy: str,
        max_bytes: int,
        held: Iterable[tuple[str, int]],
        memory: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Order the chunks that a store holds; `held` has each with the mark of its last use, the lowest mark first.

        `memory` is a file for what the policy learns, which survives a restart; see `Memory`.

        Raises:
            ConfigError: the name is not one of `CHUNK_POLICIES`.
        """
        if policy not in CHUNK_POLICIES:
            raise ConfigError(
                f"[kvstore] eviction: a KV store has no policy {policy!r}; valid names: {', '.join(CHUNK_POLICIES)}"
            )
        self._policy = create_policy(policy, max(1, max_bytes // _CHUNK_BYTES))
        self._prompts: OrderedDict[str, tuple[_Prompt, int]] = OrderedDict()
        """The last prompt of each chunk, and the place of the chunk in it."""
        self._after: dict[str, set[str]] = {}
        """The held chunks right after each chunk, if there are any."""
        self._overdue: dict[str, None] = {}
        """The held chunks that the policy chose, and that wait for the eviction of the chunks after them."""
        self._ends: dict[str, None] = {}
        """The overdue chunks that wait for no chunk any more."""
        self._clock = clock
        self._turn = 0
        for key, mark in held:
            self.use(key)
            self._turn = mark // _PLACES + 1
        # Only after the uses above, which no prompt made: what was learned replaces what they seem to tell.
        if memory is not None and isinstance(self._policy, Adaptive):
            self._policy.remember(Memory(memory))

    def close(self) -> None:
        """Write what the policy learned to its file."""
        if isinstance(self._policy, Adaptive):
            self._policy.save(self._clock())

    def __contains__(self, key: str) -> bool:
        """Return whether a chunk is held."""
        return key in self._policy or key in self._overdue

    def __len__(self) -> int:
        """Return the number of held chunks."""
        return len(self._policy) + len(self._overdue)

    def tell(self, keys: Sequence[str]) -> None:
        """Record the chunks of a prompt, in their order.

        A chunk's key names all tokens before its end, so the chunks before a chunk never change. A lookup of a part of
        a known prompt, such as one of a single chunk, says nothing new.
        """
        prompt = _Prompt(keys)
        new = not keys or self._place(keys[-1]) < len(keys) - 1
        for place, key in enumerate(keys):
            known = self._place(key)
            if known < place or (new and known == place):
                self._leave(key)
                self._prompts[key] = prompt, place
                self._follow(key)
            self._prompts.move_to_end(key)
        while len(self._prompts) > max(_REMEMBERED, len(keys)):
            oldest = next(iter(self._prompts))
            self._leave(oldest)
            del self._prompts[oldest]

    def _place(self, key: str) -> int:
        """Return the place of a chunk in its last prompt; −1 for a chunk of no known prompt."""
        return self._prompts[key][1] if key in self._prompts else -1

    def _before(self, key: str) -> str | None:
        """Return the chunk right before a chunk; None for the first chunk of a prompt, or of no known prompt."""
        prompt, place = self._prompts.get(key, (None, 0))
        return prompt.keys[place - 1] if prompt is not None and place else None

    def _follow(self, key: str) -> None:
        """Let the chunk before a held chunk wait for it."""
        before = self._before(key)
        if before is not None and key in self:
            self._after.setdefault(before, set()).add(key)
            self._ends.pop(before, None)

    def _leave(self, key: str) -> None:
        """Let the chunk before a chunk no longer wait for it."""
        before = self._before(key)
        after = self._after.get(before) if before is not None else None
        if before is None or after is None:
            return
        after.discard(key)
        if not after:
            del self._after[before]
            if before in self._overdue:
                self._ends[before] = None

    def use(self, key: str) -> int:
        """Record that a chunk was added or read; return the mark of this use, which the next start needs."""
        now, policy = self._clock(), self._policy
        prompt, place = self._prompts.get(key) or (_Prompt((key,)), 0)
        self._hold(key)
        policy.use(Use([key]), now)
        policy.free(key, now)
        self._follow(key)
        for before in reversed(prompt.keys[:place]):
            if before in self:
                self._hold(before)
                policy.free(before, now)
        if not prompt.turn or now - prompt.since > _TURN_SECONDS:
            self._turn += 1
            prompt.turn, prompt.since = self._turn, now
        return (prompt.turn + 1) * _PLACES - 1 - min(place, _PLACES - 1)

    def remove(self, keys: Iterable[str]) -> None:
        """Record that chunks are not held any more."""
        for key in keys:
            self._hold(key)
            self._leave(key)

    def _hold(self, key: str) -> None:
        """Remove a chunk from the order, not from the chunks that another one waits for."""
        self._policy.hold(key)
        self._overdue.pop(key, None)
        self._ends.pop(key, None)

    def first(self) -> str:
        """Return the chunk to evict first, and remove it from the order.

        Raises:
            KeyError: no chunk is held.
        """
        now = self._clock()
        while not self._ends and len(self._policy):
            chosen = str(self._policy.evict(now))
            self._overdue[chosen] = None
            if chosen not in self._after:
                self._ends[chosen] = None
        if not self._overdue:
            raise KeyError("no chunk is held")
        # Without ends, all chunks wait for others: two clients told different orders of the same chunks.
        key = self._ends.popitem()[0] if self._ends else next(iter(self._overdue))
        self._hold(key)
        self._leave(key)
        return key
