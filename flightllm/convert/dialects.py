"""How a CSV file separates and quotes its columns, found by parsing its beginning in each of the usual ways."""

import csv
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
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
_READABLE = 0.9
"""The share of rows that fit above which no backslash is needed to escape quotes."""
UNENDED = "unexpected end of data"
"""What Python's reader says of a quote that nothing closes."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How to read a CSV file; an empty `quote`: nothing quotes cells; `guessed`: the delimiter was found, not given."""

    delimiter: str
    quote: str = '"'
    escape: str | None = None
    guessed: bool = False

    def rows(self, lines: Iterable[str]) -> "Reader":
        """Return a reader of the rows, which raises `csv.Error` where quotes are wrong."""
        csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # for the whole process: fields here can be long texts
        escape = None if self.escape == self.quote else self.escape  # doubled quotes are always read
        return csv.reader(
            lines if escape is None else self._escaped(lines, escape),
            delimiter=self.delimiter,
            quotechar=self.quote or None,
            escapechar=escape,
            quoting=csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE,
            strict=True,
        )

    def _escaped(self, lines: Iterable[str], escape: str) -> Iterator[str]:
        """Yield lines in which an escape before a usual character is doubled: it is a letter there."""
        special = "".join(map(re.escape, {escape, self.quote, self.delimiter, "\r", "\n"}))
        pattern = re.compile(rf"({re.escape(escape)}[{special}])|{re.escape(escape)}")
        for line in lines:
            yield pattern.sub(lambda found: found[1] or escape * 2, line)


def dialect_of(sample: str, known: CsvOptions, *, whole: bool) -> Dialect:
    """Return how a sample from a file's start is written; `whole` says that the file ends with it.

    The best way to read it gives most rows the width of the first one; among equally good ones the widest wins.
    """
    delimiters = (known.delimiter,) if known.delimiter else _possible(sample, known)
    guessed = known.delimiter is None

    def best(escape: str | None) -> tuple[tuple[float, int], Dialect]:
        found = [
            Dialect(delimiter, quote, escape, guessed)
            for delimiter in delimiters
            for quote in ((known.quote,) if known.quote is not None else _quotes(sample, delimiter, whole=whole))
        ]
        scored = [(_score(dialect, sample, whole=whole), dialect) for dialect in found]
        return max(scored, key=lambda pair: pair[0])

    plain = best(known.escape)
    if known.escape or '\\"' not in sample or plain[0][0] >= _READABLE:
        return plain[1]
    return max(plain, best("\\"), key=lambda pair: pair[0])[1]


def _possible(sample: str, known: CsvOptions) -> tuple[str, ...]:
    """Return what can separate columns: no comma if it stands before decimals, and the first line has another mark."""
    others = tuple(mark for mark in DELIMITERS if mark != known.decimal)
    first = sample.partition("\n")[0]
    return others if any(mark in first for mark in others) else DELIMITERS


def _quotes(sample: str, delimiter: str, *, whole: bool) -> tuple[str, ...]:
    """Return what can quote cells: `'` only where it quotes whole cells, and no cell begins with `"`."""
    mark = re.escape(delimiter)
    start, end = rf"(?<![^\r\n{mark}])", rf"(?=[\r\n{mark}]|\Z)"
    if "'" not in sample or re.search(f'{start}"', sample):
        return ('"',)
    begun, closed = len(re.findall(f"{start}'", sample)), len(re.findall(f"{start}'(?:[^']|'')*'{end}", sample))
    return ('"', "'") if closed and begun - closed <= (not whole) else ('"',)  # the sample can end inside quotes


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
        return (_ONE_COLUMN if valid else _ONE_COLUMN / 4, 1)
    share = sum(fitting) / len(fitting)
    return (share if valid else share / 4, len(first) - (not first[-1]))


def row_fits(row: Sequence[str], first: Sequence[str]) -> bool:
    """Tell whether a row is as wide as the first one, but for a delimiter at the end of either line."""
    more = len(row) - len(first)
    return not more or (more == 1 and not row[-1]) or (more == -1 and bool("".join(row).strip()) and not first[-1])
