"""Write the numbers of rows in a model's text in one form: `(**[1]**, [Text 2])` becomes `[1][2]`."""

import re
from typing import Final

_WORD: Final = r"(?:(?:texts?|rows?|notes?|sources?|records?|no\.)\s*:?\s*)?"
_NUMBER: Final = rf"{_WORD}[#^]?\d+"
_BETWEEN: Final = r"\s*(?:(?:[,;]\s*)?(?:and|&)\s|[,;&\-\u2013]|to\s)\s*"
_LIST: Final = rf"{_NUMBER}(?:{_BETWEEN}{_NUMBER})*"
_MARK: Final = rf"\[\s*{_LIST}\s*\]|\u3010\s*{_LIST}\s*\u3011"
_MARKS: Final = rf"(?:{_MARK})(?:(?:\s*(?:[,;&]|\band\b)?\s*)(?:{_MARK}))*"
_ANY_MARKS: Final = re.compile(_MARKS, re.IGNORECASE)
_DOUBLED: Final = re.compile(rf"\[\s*({_MARKS})\s*\]", re.IGNORECASE)
_WRAPPED: Final = re.compile(
    rf"(?P<mark>\*\*|\*|__|_|`)(?P<plain>{_MARKS})(?P=mark)|\(\s*{_WORD}(?P<inner>{_MARKS})\s*\)", re.IGNORECASE
)
_IN_PARENTHESES: Final = re.compile(rf"\(\s*({_LIST})\s*\)(?=[.!?]|\s*$)", re.IGNORECASE | re.MULTILINE)
_LATE: Final = re.compile(rf"([.!?])[ \t]*({_MARKS})[ \t]*[.](?=\s|$)", re.IGNORECASE)
_LEADING: Final = re.compile(rf"([.!?])[ \t]+({_MARKS})[ \t]+(?=\w)", re.IGNORECASE)
_ESCAPED: Final = re.compile(r"\\([\[\]])")
_PIECES: Final = re.compile(r"(\d+)|([-\u2013]|\bto\b)")


def in_one_form(text: str) -> str:
    """Return a text whose numbers are in plain brackets, without Markdown, words or parentheses around them.

    Numbers in parentheses count only in a text without brackets, at the end of a sentence: `(2)` can be anything.
    """
    text = _ESCAPED.sub(r"\1", text)
    text = _DOUBLED.sub(r"\1", text)
    text = _WRAPPED.sub(lambda found: found["plain"] or found["inner"], text)
    if not _ANY_MARKS.search(text):
        text = _IN_PARENTHESES.sub(r"[\1]", text)
    text = _ANY_MARKS.sub(lambda found: f"[{_plain(found[0])}]", text)
    text = _LATE.sub(r"\1 \2", text)
    ends = [found.end() for found in _ANY_MARKS.finditer(text)]
    if _ANY_MARKS.match(text) and ends[-1] < len(text.rstrip()):
        return _LEADING.sub(r"\1\n\2 ", text)  # numbers come before their sentences here
    return text


def _plain(marks: str) -> str:
    """Return the numbers and ranges of marks: `[Text 1], [3 to 5]` becomes `1, 3-5`."""
    shown = ""
    for number, dash in _PIECES.findall(marks):
        if dash:
            shown += "-"
        else:
            shown += number if not shown or shown.endswith("-") else f", {number}"
    return shown
