"""Decides whether the first row of a file has the column names."""

import re
from collections.abc import Sequence

import pyarrow as pa

from flightllm.file_formats.kinds import ColumnKinds

_YEARS = range(1900, 2101)
_SMALL = range(1000)
"""Whole numbers that can be names, for example of months, weeks, hours, or of answers in a survey."""
_COUNTED = 2
"""If this many rows below continue to count from the first row's number, that number is a value and not a name."""


def is_header(first: pa.RecordBatch, kinds: Sequence[ColumnKinds], below: pa.RecordBatch | None) -> bool:
    """Return whether a first row of texts has names; `kinds` and `below` describe the rows after it.

    It has names if a text is above values of another type, or if all columns are texts. Empty cells say nothing, except
    above a first column that counts the rows. A row of years or small numbers beside texts has names in two cases: a
    text differs in shape from the texts below it, or the columns below the years have other numbers. A row without
    rows below it has names unless each of its cells has a type.
    """
    alone = [ColumnKinds(kind.decimal, kind.kinds) for kind in kinds]
    for kind, column in zip(alone, first.columns, strict=True):
        kind.see(column)
    others = any(kind.filled for kind in kinds)
    typed = [place for place, kind in enumerate(kinds) if not kind.texts or not others]
    if not typed:
        return True
    typed = [place for place in typed if alone[place].filled]
    if not typed:
        return below is not None and _counts_rows(first, kinds, below)
    if any(alone[place].texts for place in typed):
        return True
    if not others or below is None or any(alone[place].type != pa.int64() for place in typed):
        return False
    if any(kinds[place].type not in {pa.int64(), pa.float64()} for place in typed):
        return True  # a whole number above dates or booleans
    texts = [place for place in range(len(kinds)) if place not in typed and first.column(place)[0].is_valid]
    numbers = [int(*alone[place].numbers(first.column(place))) for place in typed]
    lower = [kinds[place].numbers(below.column(place)) for place in typed]
    if not texts or not _can_name(numbers) or any(map(_counts, numbers, lower)):
        return False
    if all(number in _YEARS for number in numbers) and not all(value in _YEARS for cells in lower for value in cells):
        return True
    return any(_unlike(first.column(place)[0].as_py(), below.column(place)) for place in texts)


def _counts_rows(first: pa.RecordBatch, kinds: Sequence[ColumnKinds], below: pa.RecordBatch) -> bool:
    """Return whether the first cell is empty above a column that counts from 0 or 1, as some programs write it."""
    if first.column(0)[0].is_valid or kinds[0].type != pa.int64():
        return False
    cells = kinds[0].numbers(below.column(0))
    return cells[:_COUNTED] in ([*range(_COUNTED)], [*range(1, _COUNTED + 1)])


def _can_name(numbers: Sequence[int]) -> bool:
    """Return whether numbers can be column names: they differ, and each is small or a year."""
    return len({*numbers}) == len(numbers) and all(number in _SMALL or number in _YEARS for number in numbers)


def _counts(first: int, below: Sequence[float]) -> bool:
    """Return whether the numbers below continue to count from the first one."""
    return below[:_COUNTED] == [first + step for step in range(1, _COUNTED + 1)]


def _unlike(cell: str, column: pa.Array) -> bool:
    """Return whether a text that begins with a letter has another shape than the texts below, if those share shapes."""
    below = column.drop_null().to_pylist()
    shapes = {_shape(text) for text in below}
    few = len(shapes) == 1 or len(shapes) * 2 <= len(below)
    return cell.strip()[:1].isalpha() and few and _shape(cell) not in shapes


def _shape(text: str) -> str:
    """Return a text's shape, with a sign for each run of digits and each word: `DE 12` and `FR 7` give `A 9`."""
    text = re.sub(r"\d+", "9", text.strip())
    return re.sub(r"[^\W\d_]+", lambda word: _word_shape(word[0]), text)


def _word_shape(word: str) -> str:
    return "a" if word.islower() else "A" if word.isupper() else "Aa"
