"""Count the prompts of one pass that begin alike, so that an engine stores only starts that will be read."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from flightllm.common.newest import Newest

_MOST_STARTS: Final = 1 << 16
"""The starts that are counted at once. Prompts are sorted, so those with an old start have been sent."""
_MOST_EXPECTED: Final = 64


class SharedStarts:
    """The starts of the prompts that are sent or will be sent. One thread uses it.

    Example: three prompts with the instruction `I` and the fields `a x`, `a y` and `b z`. The start `I` has the count
    3, `I a` has 2, and each whole prompt has 1. If two readers pay for a start, the first prompt shares `I a`.
    """

    def __init__(self, pays_from: int) -> None:
        """A start is shared if at least `pays_from` prompts have it."""
        self._pays_from = pays_from
        self._counts = Newest[int, int](_MOST_STARTS)
        self._expected = Newest[int, None](_MOST_EXPECTED)

    def expect(self, prompt: str, ends: Sequence[int], form: Hashable = None) -> None:
        """Count a prompt that will probably be sent later; `add` does not count it again."""
        if hash((form, prompt)) not in self._expected:
            self.add(prompt, ends, form)
            self._expected[hash((form, prompt))] = None

    def add(self, prompt: str, ends: Sequence[int], form: Hashable = None) -> None:
        """Count a prompt that will be sent. Endpoints read its `form`, such as a schema, before the prompt."""
        if hash((form, prompt)) in self._expected:
            del self._expected[hash((form, prompt))]
            return
        for end in ends:
            start = hash((form, prompt[:end]))
            self._counts[start] = self._counts.get(start, 0) + 1

    def shared(self, prompt: str, ends: Sequence[int], form: Hashable = None) -> int:
        """Return the longest shared start of a prompt that was counted, in characters; 0 if it shares no start."""
        counts = self._counts
        return max((end for end in ends if counts.get(hash((form, prompt[:end])), 0) >= self._pays_from), default=0)
