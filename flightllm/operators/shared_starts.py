"""Count the prompts of one pass that begin alike, so that an engine stores only starts that will be read."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from flightllm.common.newest import Newest

_MOST_STARTS: Final = 1 << 16
"""The starts that are counted at once. Prompts are sorted, so those with an old start have been sent."""
_MOST_EXPECTED: Final = 64


class SharedStarts:
    """The starts of the prompts that wait, and those that were stored. One thread uses it.

    Example: three prompts with the instruction `I` and the fields `a x`, `a y` and `b z`. The start `I` has the count
    3, `I a` has 2, and each whole prompt has 1. If two readers pay for a start, the first prompt shares `I a`. A prompt
    that left before the others came has stored nothing, so later prompts do not count it.

    `kind` stands for all that the engine sends before the prompt, such as a schema: prompts of other kinds share
    nothing.
    """

    def __init__(self, pays_from: int) -> None:
        """A start is shared if at least `pays_from` prompts that wait have it."""
        self._pays_from = pays_from
        self._waiting = Newest[int, int](_MOST_STARTS)
        """How many prompts that wait have a start."""
        self._stored = Newest[int, None](_MOST_STARTS)
        self._expected = Newest[int, None](_MOST_EXPECTED)

    def expect(self, prompt: str, ends: Sequence[int], kind: Hashable = None) -> None:
        """Count a prompt that will probably be sent later; `add` does not count it again."""
        name = hash((kind, prompt))
        if name not in self._expected:
            self.add(prompt, ends, kind)
            self._expected[name] = None

    def add(self, prompt: str, ends: Sequence[int], kind: Hashable = None) -> None:
        """Count a prompt that will be sent."""
        name = hash((kind, prompt))
        if name in self._expected:
            del self._expected[name]
            return
        for end in ends:
            start = hash((kind, prompt[:end]))
            self._waiting[start] = self._waiting.get(start, 0) + 1

    def shared(self, prompt: str, ends: Sequence[int], kind: Hashable = None) -> int:
        """Return the longest start that others read too, in characters; 0 if the prompt shares no start."""
        return max((end for end in ends if self._is_shared(hash((kind, prompt[:end])))), default=0)

    def shared_by_packs(
        self, pack: str, ends: Sequence[int], packs: int, following: str | None, kind: Hashable = None
    ) -> int:
        """Return the longest start of a pack that others read too, in characters; 0 if it shares no start.

        So many `packs` of one call have the first start. The next of them begins like `following`.
        """
        two = self._pays_from <= 2 and following is not None
        found = 0
        for place, end in enumerate(ends):
            comes = packs >= self._pays_from if not place else two and (following or "").startswith(pack[:end])
            if comes or hash((kind, pack[:end])) in self._stored:
                found = end
        return found

    def waiting(self, prompt: str, end: int, kind: Hashable = None) -> int:
        """Return how many prompts that wait have the start of a prompt up to `end`."""
        return self._waiting.get(hash((kind, prompt[:end])), 0)

    def store(self, prompt: str, ends: Sequence[int], kind: Hashable = None) -> None:
        """Note that a prompt leaves that was not counted, and stores its starts up to `ends`."""
        for end in ends:
            self._stored[hash((kind, prompt[:end]))] = None

    def sent(self, prompt: str, ends: Sequence[int], kind: Hashable = None, *, packed: bool = False) -> None:
        """Note that a counted prompt leaves, with the starts that it shares; a `packed` one stores none of them."""
        for start in [hash((kind, prompt[:end])) for end in ends]:
            if not packed and self._is_shared(start):
                self._stored[start] = None
            left = self._waiting.get(start, 0) - 1
            if left > 0:
                self._waiting[start] = left
            else:
                self._waiting.pop(start, None)

    def _is_shared(self, start: int) -> bool:
        return start in self._stored or self._waiting.get(start, 0) >= self._pays_from
