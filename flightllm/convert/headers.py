"""Whether the first row of a file has the names of its columns."""

import re
from collections.abc import Sequence

import pyarrow as pa

from flightllm.convert.kinds import ColumnKinds

_YEARS = range(1900, 2101)
_SMALL = range(1000)
"""Whole numbers that can be names: of months, weeks, hours, or of answers in a survey."""
_COUNTED = 2
"""Rows that go on counting from the first row's number, so that this is a number of rows and no name."""


def is_header(first: pa.RecordBatch, kinds: Sequence[ColumnKinds], below: pa.RecordBatch | None) -> bool:
    """Tell whether a first row of texts is one of names; `kinds` and `below` tell of the rows after it.

    It is one if a cell does not have the type of its column, or all columns are texts. Beside texts, years and small
    numbers are names if a text is unlike those below it, or if the column below has no years. Without another row it
    is one unless each of its cells has a type.
    """
    alone = [ColumnKinds(kind.decimal) for kind in kinds]
    for kind, column in zip(alone, first.columns, strict=True):
        kind.see(column)
    others = any(kind.filled for kind in kinds)
    typed = [place for place, kind in enumerate(kinds) if kind.type != pa.string() or not others]
    if not typed or any(alone[place].type == pa.string() for place in typed):
        return True
    if not others or below is None or any(alone[place].type != pa.int64() for place in typed):
        return False
    if any(kinds[place].type not in {pa.int64(), pa.float64()} for place in typed):
        return True  # a whole number above days or truth values
    texts = [place for place in range(len(kinds)) if place not in typed and first.column(place)[0].is_valid]
    numbers = [int(first.column(place)[0].as_py()) for place in typed]
    lower = [kinds[place].numbers(below.column(place)) for place in typed]
    if not texts or not _can_name(numbers) or any(map(_counts, numbers, lower)):
        return False
    if all(number in _YEARS for number in numbers) and not all(value in _YEARS for cells in lower for value in cells):
        return True
    return any(_unlike(first.column(place)[0].as_py(), below.column(place)) for place in texts)


def _can_name(numbers: Sequence[int]) -> bool:
    """Tell whether numbers can be names of columns: they differ, and each is small or a year."""
    return len({*numbers}) == len(numbers) and all(number in _SMALL or number in _YEARS for number in numbers)


def _counts(first: int, below: Sequence[float]) -> bool:
    """Tell whether numbers below go on counting from the first one."""
    return below[:_COUNTED] == [first + step for step in range(1, _COUNTED + 1)]


def _unlike(cell: str, column: pa.Array) -> bool:
    """Tell whether a text that begins with a letter has another shape than those below, which have few shapes."""
    below = column.drop_null().to_pylist()
    shapes = {_shape(text) for text in below}
    few = len(shapes) == 1 or len(shapes) * 2 <= len(below)
    return cell.strip()[:1].isalpha() and few and _shape(cell) not in shapes


def _shape(text: str) -> str:
    """Return a text with a sign for each run of digits, and for each word: `9`, `a`, `A`, `Aa`; `DE 12` is `A 9`."""
    text = re.sub(r"\d+", "9", text.strip())
    return re.sub(r"[^\W\d_]+", lambda word: _word_shape(word[0]), text)


def _word_shape(word: str) -> str:
    return "a" if word.islower() else "A" if word.isupper() else "Aa"
