"""Parts of texts by their places: from a start that can be negative, and after the n-th occurrence."""

import re
from typing import Final

import pyarrow as pa

from flightllm.errors import SqlError
from flightllm.functions.own import OwnFunction
from flightllm.functions.rows import each_row

PART_OF_TEXT, PLACE_IN_TEXT = "__text_part", "__text_place"
TEXT_SLICE: Final = "__text_slice"
WORD_OF_TEXT, CAPITALS, SOUND = "__text_word", "__capitals", "__soundex"
"""The names of the functions in SQL."""
_CODES: Final = {
    letter: digit
    for digit, letters in {"1": "BFPV", "2": "CGJKQSXZ", "3": "DT", "4": "L", "5": "MN", "6": "R"}.items()
    for letter in letters
}


def text_parts(texts: pa.Array, starts: pa.Array, lengths: pa.Array, styles: pa.Array) -> pa.Array:
    """Return the part of each text from a start, which counts from the end if it is negative.

    A start can lie before the text: then `snowflake` gives an empty text, `bigquery` begins with the first letter, and
    `spark` gives the letters of the part that exist. Each of them reads a start of 0 as 1. In `duckdb` 0 is the place
    before the first letter, and a negative length counts back from the start.
    """
    return each_row(_part, texts, starts, lengths, styles)


def _part(text: str, start: int, length: int, style: str) -> str:
    if style == "duckdb":
        return _part_back(text, start, length)
    if length < 0:
        if style == "bigquery":
            raise SqlError(f"the length of a part of a text is {length}: write 0 or more")
        return ""
    begin = start - 1 if start > 0 else len(text) + start if start else 0
    if begin < 0 and style == "snowflake":
        return ""
    if begin < 0 and style == "bigquery":
        begin = 0
    return text[max(begin, 0) : max(begin + length, 0)]


def _part_back(text: str, start: int, length: int) -> str:
    begin = start - 1 if start >= 0 else len(text) + start
    ends = sorted((begin, begin + length))
    return text[max(ends[0], 0) : max(ends[1], 0)]


def text_slices(texts: pa.Array, firsts: pa.Array, lasts: pa.Array) -> pa.Array:
    """Return the letters from a first place to a last one, as DuckDB reads `text[2:4]`; a bound can be NULL.

    Places count from 1, and from the last letter if they are negative.
    """
    rows = zip(texts.to_pylist(), firsts.to_pylist(), lasts.to_pylist(), strict=True)
    return pa.array([None if text is None else _slice(text, first, last) for text, first, last in rows], pa.string())


def _slice(text: str, first: int | None, last: int | None) -> str:
    begin, end = (place if place is None or place >= 0 else len(text) + 1 + place for place in (first, last))
    return text[max(begin or 1, 1) - 1 : len(text) if end is None else max(end, 0)]


def text_places(texts: pa.Array, parts: pa.Array, starts: pa.Array, occurrences: pa.Array) -> pa.Array:
    """Return the place of the n-th occurrence of a part at or after a start, from 1; 0 if it does not occur.

    A negative start counts from the end, and searches towards the begin.

    Raises:
        SqlError: the occurrence is less than 1.
    """
    return each_row(_place, texts, parts, starts, occurrences, kind=pa.int64())


def _place(text: str, part: str, start: int, occurrence: int) -> int:
    if occurrence < 1:
        raise SqlError(f"the occurrence of a part of a text is {occurrence}: write 1 or more")
    if start == 0:
        return 0
    if start < 0:
        end = len(text) + start + len(part)
        for _ in range(occurrence):
            found = text.rfind(part, 0, max(end, 0))
            if found < 0:
                return 0
            end = found + len(part) - 1
        return found + 1
    found = start - 2
    for _ in range(occurrence):
        found = text.find(part, found + 1)
        if found < 0:
            return 0
    return found + 1


def text_words(texts: pa.Array, separators: pa.Array, places: pa.Array) -> pa.Array:
    """Return the n-th word of each text between any of some letters; NULL for a text with fewer words.

    Empty words do not count.
    """
    return each_row(_word, texts, separators, places)


def _word(text: str, separators: str, place: int) -> str | None:
    words = re.split(f"[{re.escape(separators)}]+", text) if separators else [text]
    known = [word for word in words if word]
    return known[place - 1] if 0 < place <= len(known) else None


def capitals(texts: pa.Array, separators: pa.Array) -> pa.Array:
    """Return texts with a capital after the begin and after each of some letters, and small letters elsewhere."""
    return each_row(_capitals, texts, separators)


def _capitals(text: str, separators: str) -> str:
    made, begins = [], True
    for letter in text:
        made.append(letter.upper() if begins else letter.lower())
        begins = letter in separators
    return "".join(made)


def sounds(texts: pa.Array) -> pa.Array:
    """Return the Soundex code of each text: its first letter and three digits."""
    return each_row(_sound, texts)


def _sound(text: str) -> str:
    letters = [letter for letter in text.upper() if letter.isascii() and letter.isalpha()]
    if not letters:
        return ""
    made, last = letters[0], _CODES.get(letters[0], "")
    for letter in letters[1:]:
        code = _CODES.get(letter, "")
        if code and code != last:
            made += code
        if letter not in "HW":
            last = code
    return made[:4].ljust(4, "0")


FUNCTIONS: Final = (
    OwnFunction(text_parts, (pa.string(), pa.int64(), pa.int64(), pa.string()), pa.string(), PART_OF_TEXT),
    OwnFunction(text_slices, (pa.string(), pa.int64(), pa.int64()), pa.string(), TEXT_SLICE),
    OwnFunction(text_places, (pa.string(), pa.string(), pa.int64(), pa.int64()), pa.int64(), PLACE_IN_TEXT),
    OwnFunction(text_words, (pa.string(), pa.string(), pa.int64()), pa.string(), WORD_OF_TEXT),
    OwnFunction(capitals, (pa.string(), pa.string()), pa.string(), CAPITALS),
    OwnFunction(sounds, (pa.string(),), pa.string(), SOUND),
)
