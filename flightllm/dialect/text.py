"""Keep a statement's sent text and its rewritten text, and map positions between the two."""

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
"""Patterns of positions in error messages of DataFusion and this package."""
_SHOWN = 2_000
"""Characters of a transpiled text that an error shows."""


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """A replacement of the characters `[start, end)` by `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The statement `sent`, and the `text` that the sets of `edits` made of it, one set after the other."""

    sent: str
    text: str
    edits: tuple[tuple[Edit, ...], ...] = ()
    read_from: str = ""
    """The dialect that the whole text was translated from, if any; then positions in `text` no longer match `sent`."""
    parsed: ParsedText | None = field(default=None, compare=False, repr=False)
    """The tokens of `text` as the last rule read them."""

    def with_edits(self, edits: Iterable[Edit]) -> "Rewritten":
        """Return the text with further edits.

        Raises:
            SqlError: two edits overlap; the message has the position in the sent text.
        """
        ordered = tuple(sorted(set(edits)))
        if not ordered:
            return self
        parts, at = list[str](), 0
        for edit in ordered:
            if edit.start < at:
                place = position(self.sent, self.sent_at(edit.start))
                raise SqlError(f"the text at {place} cannot be rewritten from another dialect: write it in plain SQL")
            parts += [self.text[at : edit.start], edit.text]
            at = edit.end
        return replace(self, text="".join([*parts, self.text[at:]]), edits=(*self.edits, ordered), parsed=None)

    def sent_at(self, offset: int) -> int:
        """Return the position in the sent text of an offset of the text; inside an edit, that of its beginning."""
        for edits in reversed(self.edits):
            offset = _before(edits, offset)
        return offset

    def said(self, message: str) -> str:
        """Return an error's message with positions of the sent text in place of positions of the rewritten text."""
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
    """Return an offset before a set of edits, given the offset after it."""
    shift = 0
    for edit in edits:
        if offset < edit.start + shift:
            break
        if offset < edit.start + shift + len(edit.text):
            return edit.start
        shift += len(edit.text) - (edit.end - edit.start)
    return offset - shift
