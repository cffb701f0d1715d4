"""The edits that turn a text into the text of a changed tree: comments and places of all other parts stay."""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import Token, TokenKind

_LONGEST: Final = 3_000
"""The most tokens that are compared one by one. More tokens become one edit."""
_WINDOW: Final = 200
"""The tokens that are compared at once: the time for more would grow with their square."""
_WORD: Final = re.compile(r"[\w$'\"]{2}")
_SAME: Final = {"!=": "<>", "==": "="}


def replacements(text: ParsedText, printed: ParsedText) -> Iterator[tuple[int, int, str]]:
    """Yield the start, the end and the new text of each place of `text` where `printed` has other tokens."""
    before, after = [*map(_key, text.tokens)], [*map(_key, printed.tokens)]
    first = _equal(before, after)
    last = min(_equal(before[::-1], after[::-1]), len(before) - first, len(after) - first)
    until, until_after = len(before) - last, len(after) - last
    if max(until, until_after) - first > _LONGEST:
        yield _edit(text, printed, (first, until), (first, until_after))
        return
    for old, new in _differences(before[first:until], after[first:until_after]):
        yield _edit(text, printed, (first + old[0], first + old[1]), (first + new[0], first + new[1]))


def edited(sql: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """Return a text with the new text of each (start, end, new text)."""
    for start, end, written in sorted(edits, reverse=True):
        sql = sql[:start] + written + sql[end:]
    return sql


def _differences(
    before: Sequence[object], after: Sequence[object]
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield the start and the end, in both lists, of each part that differs.

    A window reads the first elements. It moves on to the last part that is equal in its first half, or grows.
    """
    start, other, size = 0, 0, _WINDOW
    old = new = 0
    while start < len(before) or other < len(after):
        last = max(len(before) - start, len(after) - other) <= size
        matcher = SequenceMatcher(None, before[start : start + size], after[other : other + size], autojunk=False)
        blocks = [(start + one.a, other + one.b, one.size) for one in matcher.get_matching_blocks()[:-1]]
        if not last:
            halves = start + size // 2, other + size // 2
            blocks = [one for one in blocks if one[0] < halves[0] and one[1] < halves[1]]
            if not blocks:
                size *= 2
                continue
        for a, b, length in blocks:
            if (old, new) != (a, b):
                yield (old, a), (new, b)
            old, new = a + length, b + length
        start, other, size = old, new, _WINDOW
        if last:
            break
    if old < len(before) or new < len(after):
        yield (old, len(before)), (new, len(after))


def _edit(text: ParsedText, printed: ParsedText, old: tuple[int, int], new: tuple[int, int]) -> tuple[int, int, str]:
    start, end, written = _placed(text, printed.text(*new) if new[0] < new[1] else "", old)
    return start, end, _apart(text.sql[:start][-1:], written, text.sql[end : end + 1])


def _placed(text: ParsedText, written: str, old: tuple[int, int]) -> tuple[int, int, str]:
    if old[0] < old[1]:
        return text.tokens[old[0]].start, text.tokens[old[1] - 1].end, written
    if old[0] < len(text.tokens) and (written.endswith("(") or not old[0]):
        place = text.tokens[old[0]].start
        return place, place, written if written.endswith("(") else f"{written} "
    place = text.tokens[old[0] - 1].end
    return place, place, written if written.startswith(")") else f" {written}"


def _apart(before: str, written: str, after: str) -> str:
    """Return a text with a space at each end where it would become one word with its neighbor."""
    first, last = (_WORD.fullmatch(two) is not None for two in (before + written[:1], written[-1:] + after))
    return f"{' ' * first}{written}{' ' * last}"


def _equal(before: Sequence[object], after: Sequence[object]) -> int:
    """Return the number of equal first elements."""
    return next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )


def _key(token: Token) -> tuple[TokenKind, str]:
    """Return a value that is equal for tokens that mean the same."""
    if token.kind is TokenKind.WORD:
        return token.kind, token.text.lower()
    return token.kind, _SAME.get(token.text, token.text) if token.kind is TokenKind.SYMBOL else token.text
