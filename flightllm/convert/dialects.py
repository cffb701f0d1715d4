"""How a CSV file separates and quotes its columns, found by parsing its beginning in each of the usual ways."""

import csv
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import product
from typing import TYPE_CHECKING

from flightllm.convert.options import CsvOptions

if TYPE_CHECKING:
    from _csv import Reader

DELIMITERS = (",", ";", "\t", "|")
SAMPLE = 1 << 18
"""Characters of the beginning."""
_MOST_ROWS = 2_000
_ONE_COLUMN = 0.05
"""Taken where nothing separates the first line, rather than where a later quote is wrong."""
UNENDED = "unexpected end of data"
"""What Python's reader says of a quote that nothing closes."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How to read a CSV file; `guessed` says that the delimiter was found by looking."""

    delimiter: str
    quote: str = '"'
    escape: str | None = None
    guessed: bool = False

    def rows(self, lines: Iterable[str]) -> "Reader":
        """Return a reader of the rows, which raises `csv.Error` where quotes are wrong."""
        csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # for the whole process: fields here can be long texts
        return csv.reader(lines, delimiter=self.delimiter, quotechar=self.quote, escapechar=self.escape, strict=True)


def dialect_of(sample: str, known: CsvOptions, *, whole: bool) -> Dialect:
    """Return how a sample from a file's start is written; `whole` says that the file ends with it.

    The best way to read it gives most rows the width of the first one; among equally good ones the widest wins.
    """
    delimiters = (known.delimiter,) if known.delimiter else DELIMITERS
    quotes = (known.quote,) if known.quote else ('"', "'")
    escapes = (known.escape,) if known.escape or '\\"' not in sample else (None, "\\")
    found = [
        Dialect(delimiter, quote, escape, guessed=known.delimiter is None)
        for quote, escape, delimiter in product(quotes, escapes, delimiters)
        if quote == quotes[0] or f"{delimiter}{quote}" in sample
    ]
    return max(found, key=lambda dialect: _score(dialect, sample, whole=whole))


def _score(dialect: Dialect, sample: str, *, whole: bool) -> tuple[float, int]:
    """Return the share of rows that fit the first one, and its width without an empty cell at its end."""
    first, fitting = list[str](), list[bool]()
    rows, valid = dialect.rows(StringIO(sample, newline="")), True
    try:
        for row in rows:
            first = first or row
            if row:
                fitting.append(row_fits(row, first))
            if len(fitting) == _MOST_ROWS:
                break
    except csv.Error as error:
        valid = not whole and UNENDED in str(error)  # the sample ends inside quotes
    else:
        if not whole and len(fitting) < _MOST_ROWS:
            fitting = fitting[:-1]  # cut off
    if not fitting or len(first) == 1:
        return (_ONE_COLUMN, 1)
    share = sum(fitting) / len(fitting)
    return (share if valid else share / 4, len(first) - (not first[-1]))


def row_fits(row: Sequence[str], first: Sequence[str]) -> bool:
    """Tell whether a row is as wide as the first one, but for a delimiter at the end of either line."""
    more = len(row) - len(first)
    return not more or (more == 1 and not row[-1]) or (more == -1 and bool("".join(row).strip()) and not first[-1])
