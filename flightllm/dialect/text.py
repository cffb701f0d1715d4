"""A statement as it was sent and as it is read, and which place of the one is which of the other."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from flightllm.errors import SqlError
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import position

_PLACES = (
    re.compile(r"(?P<before> at Line: )(?P<line>\d{1,9})(?P<between>, Column: )(?P<column>\d{1,9})"),
    re.compile(r"(?P<before> at )(?P<line>\d{1,9})(?P<between>:)(?P<column>\d{1,9})"),
)
"""How DataFusion and this package say where in a text something is."""
_SHOWN = 2_000
"""Characters that an error shows of a text from another dialect."""


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """`text` in place of `[start, end)`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Rewritten:
    """`text` is what became of `sent` by `edits`, one set of them after the other."""

    sent: str
    text: str
    edits: tuple[tuple[Edit, ...], ...] = ()
    read_from: str = ""
    """The dialect that all of it was written in, where it was: its places are no more those of `sent`."""
    parsed: ParsedText | None = field(default=None, compare=False, repr=False)
    """What the last rule saw of `text`."""

    def with_edits(self, edits: Iterable[Edit]) -> "Rewritten":
        """Return the text with some more places changed.

        Raises:
            SqlError: two changes overlap; says where in what was sent.
        """
        ordered = tuple(sorted(set(edits)))
        if not ordered:
            return self
        parts, at = list[str](), 0
        for edit in ordered:
            if edit.start < at:
                place = position(self.sent, self.sent_at(edit.start))
                raise SqlError(f"the text at {place} cannot be read in another server's way: write it in plain SQL")
            parts += [self.text[at : edit.start], edit.text]
            at = edit.end
        return replace(self, text="".join([*parts, self.text[at:]]), edits=(*self.edits, ordered), parsed=None)

    def sent_at(self, offset: int) -> int:
        """Return where in what was sent an offset of the text is; inside of a change, where that begins."""
        for edits in reversed(self.edits):
            offset = _before(edits, offset)
        return offset

    def said(self, message: str) -> str:
        """Return an error's message about the text as one about what was sent."""
        if not self.edits:
            return message
        if self.read_from:
            return f"{message} (the text was read from {self.read_from}, as: {' '.join(self.text.split())[:_SHOWN]})"
        for pattern in _PLACES:
            message = pattern.sub(self._moved, message)
        return message

    def _moved(self, found: re.Match[str]) -> str:
        lines = self.text.splitlines(keepends=True)
        line = int(found["line"])
        if not 1 <= line <= len(lines):
            return found[0]
        place = self.sent_at(sum(map(len, lines[: line - 1])) + int(found["column"]) - 1)
        column = place - self.sent.rfind("\n", 0, place)
        return f"{found['before']}{self.sent.count(chr(10), 0, place) + 1}{found['between']}{column}"


def _before(edits: Sequence[Edit], offset: int) -> int:
    """Return where an offset of a text was before it was edited."""
    shift = 0
    for edit in edits:
        if offset < edit.start + shift:
            break
        if offset < edit.start + shift + len(edit.text):
            return edit.start
        shift += len(edit.text) - (edit.end - edit.start)
    return offset - shift
