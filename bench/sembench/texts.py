"""Find the known reviews in what a prompt says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Final

from bench.sembench.labels import Review

_SPACES: Final = re.compile(r"[^\S\n]+")
_MARK: Final = "\N{MATHEMATICAL LEFT WHITE SQUARE BRACKET}{}\N{MATHEMATICAL RIGHT WHITE SQUARE BRACKET}"
_MARKS: Final = re.compile(_MARK.format(r"(\d+)"))


class Texts:
    """The known reviews by the start of their texts.

    A prompt can write a text as it is, or inside JSON. White space counts as one space.
    """

    def __init__(self, known: Iterable[Review]) -> None:
        forms: dict[str, Review] = {}
        for review in known:
            for form in (review.text, json.dumps(review.text)[1:-1], json.dumps(review.text, ensure_ascii=False)[1:-1]):
                forms.setdefault(_folded(form).strip(), review)
        forms.pop("", None)
        self._key = min(map(len, forms), default=1)
        self._starts: dict[str, list[tuple[str, Review]]] = {}
        for form, review in sorted(forms.items(), key=lambda one: -len(one[0])):
            self._starts.setdefault(form[: self._key], []).append((form, review))

    def marked(self, said: str) -> tuple[str, Sequence[Review]]:
        """Return the text with a mark in place of each review, and the reviews that the marks number from 0.

        The longest review at a place counts.
        """
        text, found, parts = _folded(said), list[Review](), list[str]()
        place = kept = 0
        while place < len(text):
            for form, review in self._starts.get(text[place : place + self._key], ()):
                if text.startswith(form, place):
                    parts += [text[kept:place], _MARK.format(len(found))]
                    found.append(review)
                    place = kept = place + len(form)
                    break
            else:
                place += 1
        return "".join([*parts, text[kept:]]), found


def marks(text: str) -> Sequence[int]:
    """Return the numbers of the marks in a part of a marked text, in their order."""
    return [int(number) for number in _MARKS.findall(text)]


def without_marks(text: str) -> str:
    """Return a marked text without its marks."""
    return _MARKS.sub(" ", text)


def _folded(text: str) -> str:
    return _SPACES.sub(" ", text)
