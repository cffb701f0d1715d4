"""The numbers of rows in a model's text, such as `[2]` or `[1, 3]`: read them, and write them with other numbers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from flightllm.operators.sets.citation_forms import in_one_form

_NUMBERS: Final = r"\[\d+(?:-\d+)?(?:, \d+(?:-\d+)?)*\]"
"""Numbers and ranges as `in_one_form` writes them."""
_MARK: Final = re.compile(_NUMBERS)
_END: Final = re.compile(
    rf"(?<![.\s][^\W\d_])(?<!^[^\W\d_])[.!?]+[\"')\u201d\u2019]*(?:[ \t]*{_NUMBERS})*(?=\s|$)\s*"
    rf"|[\u3002\uff01\uff1f\u0964](?:\s*{_NUMBERS})*\s*"
    r"|\n\s*",
    re.MULTILINE,
)
"""The end of a sentence with the numbers after it. A point after a single letter, as in `e.g.`, ends none."""
_SPACES: Final = re.compile(rf"[ \t]*{_NUMBERS}")
"""Numbers with the spaces before them."""
_RANGE: Final = re.compile(r"(\d+)-(\d+)")
_WORD: Final = re.compile(r"\w")
_WIDEST_RANGE: Final = 1_000
_SPACE_BEFORE: Final = re.compile(r"[ \t]+(?=[.,;:!?]|$)")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence without its numbers, the white space after it, and the rows that it cites."""

    text: str
    space: str
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """Sentences that cite rows. A text without citations is one sentence without rows."""

    sentences: Sequence[Sentence]

    @property
    def rows(self) -> list[int]:
        """Return the cited rows, each once, in the order in which they are cited."""
        return list(dict.fromkeys(row for one in self.sentences for row in one.rows))

    def shown(self, numbers: Mapping[int, int]) -> str:
        """Return the text with the numbers of its rows."""
        return "".join(_with_numbers(one, numbers) + one.space for one in self.sentences).strip()


def cited(text: str, rows: Mapping[int, int]) -> Note:
    """Read a text with numbers; `rows` has the row of each number.

    Numbers that no row has are dropped. Then so are the sentences without a number: nothing supports them. Numbers
    without a word are dropped too.
    """
    sentences = []
    for part in _parts(in_one_form(text)):
        known = dict.fromkeys(rows[number] for number in _numbers(part) if number in rows)
        body = part.rstrip()
        if known:
            plain = _SPACE_BEFORE.sub("", _SPACES.sub("", body)).strip()
            if _WORD.search(plain):  # small models answer with a list of numbers and no word
                sentences.append(Sentence(plain, part[len(body) :], tuple(known)))
    return Note(sentences)


def has_numbers(text: str) -> bool:
    """Return whether a text has numbers of rows, also of rows that it cannot know."""
    return _MARK.search(in_one_form(text)) is not None


def _parts(text: str) -> list[str]:
    ends = [found.end() for found in _END.finditer(text)]
    cuts = [0, *ends] if ends and ends[-1] == len(text) else [0, *ends, len(text)]
    return [text[first:last] for first, last in pairwise(cuts)]


def _numbers(part: str) -> list[int]:
    found = list[int]()
    for mark in _MARK.findall(part):
        for first, last in _RANGE.findall(mark):
            found += range(int(first), min(int(last), int(first) + _WIDEST_RANGE) + 1)
        found += [int(number) for number in re.findall(r"\d+", _RANGE.sub(" ", mark))]
    return found


def _with_numbers(sentence: Sentence, numbers: Mapping[int, int]) -> str:
    """Return a sentence with numbers before its last point."""
    if not sentence.rows:
        return sentence.text
    mark = f" [{', '.join(str(number) for number in sorted(numbers[row] for row in sentence.rows))}]"
    bare = sentence.text.rstrip(".!?\u3002\uff01\uff1f\u0964")
    return f"{bare}{mark}{sentence.text[len(bare) :]}"
