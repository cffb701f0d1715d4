"""Detects a CSV file's delimiter and quotes, by parsing its beginning in each of the usual ways."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING

from flightllm.file_formats.options import CsvOptions

if TYPE_CHECKING:
    from _csv import Reader

DELIMITERS = (",", ";", "\t", "|")
SAMPLE = 1 << 18
"""The number of characters of the sample from the file's start."""
_MOST_ROWS = 2_000
_ONE_COLUMN = 0.05
"""The score of a file without a delimiter in its first line. A file with a wrong quote further down can score less."""
_READABLE = 0.9
"""If this share of rows fits, backslashes are not tried as escapes."""
LONGEST = 1 << 26
"""The most characters of a line and of a value, which are in memory as a whole."""
TOO_LONG = "field larger than field limit"
UNENDED = "unexpected end of data"
"""The message of Python's `csv` reader about a quote that is never closed."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The dialect of a CSV file. An empty `quote` means no quotes; `guessed` means the delimiter was detected."""

    delimiter: str
    quote: str = '"'
    escape: str | None = None
    guessed: bool = False

    def rows(self, lines: Iterable[str]) -> "Reader":
        """Return a reader of the rows, which raises `csv.Error` where quotes are wrong."""
        csv.field_size_limit(LONGEST)  # a global of Python's csv module: fields here can be long texts
        escape = None if self.escape == self.quote else self.escape  # the reader always handles doubled quotes
        return csv.reader(
            lines if escape is None else self._escaped(lines, escape),
            delimiter=self.delimiter,
            quotechar=self.quote or None,
            escapechar=escape,
            quoting=csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE,
            strict=True,
        )

    def _escaped(self, lines: Iterable[str], escape: str) -> Iterator[str]:
        """Double each escape before a usual character, where it is an ordinary letter."""
        special = "".join(map(re.escape, {escape, self.quote, self.delimiter, "\r", "\n"}))
        pattern = re.compile(rf"({re.escape(escape)}[{special}])|{re.escape(escape)}")
        for line in lines:
            yield pattern.sub(lambda found: found[1] or escape * 2, line)


def dialect_of(sample: str, known: CsvOptions, *, whole: bool) -> Dialect:
    """Return the dialect of a sample from a file's start; `whole` means that the sample is the whole file.

    The best dialect gives most rows the width of the first row. Among equally good dialects, the widest wins.
    """
    delimiters = (known.delimiter,) if known.delimiter else _possible(sample, known)
    guessed = known.delimiter is None

    def best(escape: str | None) -> tuple[tuple[float, int], Dialect]:
        found = [
            Dialect(delimiter, quote, escape, guessed)
            for delimiter in delimiters
            for quote in ((known.quote,) if known.quote is not None else quotes_of(sample, delimiter, whole=whole))
        ]
        scored = [(_score(dialect, sample, whole=whole), dialect) for dialect in found]
        return max(scored, key=lambda pair: pair[0])

    plain = best(known.escape)
    if known.escape or '\\"' not in sample or plain[0][0] >= _READABLE:
        return plain[1]
    return max(plain, best("\\"), key=lambda pair: pair[0])[1]


def _possible(sample: str, known: CsvOptions) -> tuple[str, ...]:
    """Return the possible delimiters: with decimal commas, no comma if the first line has another delimiter."""
    others = tuple(mark for mark in DELIMITERS if mark != known.decimal)
    first = sample.partition("\n")[0]
    return others if any(mark in first for mark in others) else DELIMITERS


def quotes_of(sample: str, delimiter: str, *, whole: bool) -> tuple[str, ...]:
    """Return the possible quotes: `'` counts only if it quotes whole cells, and no cell begins with `"`."""
    mark = re.escape(delimiter)
    start, end = rf"(?<![^\r\n{mark}])", rf"(?=[\r\n{mark}]|\Z)"
    if "'" not in sample or re.search(f'{start}"', sample):
        return ('"',)
    begun, closed = len(re.findall(f"{start}'", sample)), len(re.findall(f"{start}'(?:[^']|'')*'{end}", sample))
    return ('"', "'") if closed and begun - closed <= (not whole) else ('"',)  # the sample can end inside quotes


def _score(dialect: Dialect, sample: str, *, whole: bool) -> tuple[float, int]:
    """Return the share of rows that fit the first row, and the first row's width without an empty last cell."""
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
            fitting = fitting[:-1]  # the sample cuts off the last row
    if not fitting or len(first) == 1:
        return (_ONE_COLUMN if valid else _ONE_COLUMN / 4, 1)
    share = sum(fitting) / len(fitting)
    return (share if valid else share / 4, len(first) - (not first[-1]))


def row_fits(row: Sequence[str], first: Sequence[str]) -> bool:
    """Return whether a row is as wide as the first row, except for a delimiter at the end of one of them."""
    more = len(row) - len(first)
    return not more or (more == 1 and not row[-1]) or (more == -1 and bool("".join(row).strip()) and not first[-1])
