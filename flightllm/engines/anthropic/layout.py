"""Lay a prompt out as the cache reads it, and cut it into blocks where a cached start can end."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Layout:
    """One prompt in the order in which the cache reads it: the schema of the answer, the system message, the user's.

    `head` and `system` can be empty.
    """

    head: str
    system: str
    user: str

    @property
    def text(self) -> str:
        """Return the parts as one text; the places below are places in this text."""
        return "\n".join(part for part in (self.head, self.system, self.user) if part)

    @property
    def system_begin(self) -> int:
        """Return where the system message begins."""
        return len(self.head) + 1 if self.head else 0

    @property
    def user_begin(self) -> int:
        """Return where the user's message begins."""
        return self.system_begin + (len(self.system) + 1 if self.system else 0)

    def blocks(self, cuts: Sequence[int], marks: Sequence[int]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the system's and the user's blocks, cut at `cuts`; those that end at `marks` have a breakpoint.

        A place before the first character of the user's message is the end of the system message.
        """
        begin = self.user_begin
        ends = begin - 1, begin
        system_cuts = [one for one in cuts if one < begin - 1]
        marked = {begin - 1 if self.system and one in ends else one for one in marks}
        system = _cut(self.system, self.system_begin, system_cuts, marked)
        return system, _cut(self.user, begin, [one for one in cuts if one > begin], marked)


def _cut(text: str, begin: int, cuts: Sequence[int], marks: Container[int]) -> list[dict[str, Any]]:
    """Return a text as blocks. The API rejects a block that has only spaces, so a cut there is left out."""
    if not text:
        return []
    blocks: list[dict[str, Any]] = []
    last = 0
    inside = sorted({one - begin for one in cuts if 0 < one - begin < len(text)})
    for end in [*inside, len(text)]:
        if end < len(text) and not (text[last:end].strip() and text[end:].strip()):
            continue
        block: dict[str, Any] = {"type": "text", "text": text[last:end]}
        if begin + end in marks:
            block["cache_control"] = {"type": "ephemeral"}
        blocks.append(block)
        last = end
    return blocks
