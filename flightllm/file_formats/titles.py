"""Finds the first line of a table below titles, comments and blank lines."""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO

from flightllm.file_formats.dialects import DELIMITERS, Dialect, quotes_of
from flightllm.file_formats.kinds import KINDS
from flightllm.file_formats.options import CsvOptions

_BLANK = re.compile(r"[ \t]*(?:\r\n|\r|\n)")
_EMPTY = re.compile(r"[ \t,;|\"]*(?:\r\n|\r|\n)")
_COMMENT = re.compile(r"#(?:[ \t#!=-][^\r\n]*)?(?:\r\n|\r|\n)")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)")
_SEPARATOR = re.compile(r"sep=(.)(?:\r\n|\r|\n)")
"""Matches a first line that names the delimiter, as Excel reads and writes it."""
_MOST_LINES = 30
_MOST_ROWS = 500
_LEAST_SHARE = 0.95
_LEAST_AT_ONCE = 0.5
"""If fewer rows have the width of the first line, that line is perhaps a title with a comma."""
_LEAST_WIDTH = 3
"""With fewer columns, lines above the table can be names and values of a table with one column."""
_SHOWN = 40
_FILLED = ' ,;\t|"'
"""The characters of a line of empty cells."""


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a table."""

    characters: int
    lines: int
    delimiter: str | None = None
    """The delimiter that the file names."""
    left_out: tuple[str, ...] = ()
    """The lines with text that are above the table."""

    @property
    def note(self) -> str:
        """Return a note about the lines that are left out, or an empty text."""
        if not self.left_out:
            return ""
        texts = (line.strip(_FILLED) for lines in self.left_out for line in lines.splitlines())
        first = next(filter(None, texts), "empty cells")
        shown = first if len(first) <= _SHOWN else f"{first[:_SHOWN]}…"
        return f"the table begins in line {self.lines + 1}; the lines above it are left out: {shown}"


def table_start(sample: str, known: CsvOptions, *, whole: bool) -> Start:
    """Return where the table begins in a sample from a file's start; `whole` means that the sample is the file."""
    at, lines, left_out = 0, 0, list[str]()

    def skip(to: int, *, text: bool = True) -> None:
        nonlocal at, lines
        lines += len(sample[at:to].splitlines())
        if text and sample[at:to].strip():
            left_out.append(sample[at:to])
        at = to

    if known.skip is not None:
        for _ in range(known.skip):
            found = _LINE.match(sample, at)
            skip(len(sample) if found is None else found.end(), text=False)
    named = _SEPARATOR.match(sample, at)
    delimiter = None
    if named is not None and known.skip is None:
        skip(named.end(), text=False)
        delimiter = named[1]
    at, lines = _after_comments(sample, at, lines, left_out, known)
    if known.skip is None and (end := _after_titles(sample[at:], known, whole=whole)):
        skip(at + end)
    return Start(at, lines, delimiter, tuple(left_out))


def _after_comments(sample: str, at: int, lines: int, left_out: list[str], known: CsvOptions) -> tuple[int, int]:
    """Return the place and line after blank lines, lines of delimiters only, and comments."""
    while at < len(sample):
        blank = _BLANK.match(sample, at)
        empty = None if blank or known.skip is not None else _EMPTY.match(sample, at)
        comment = _COMMENT.match(sample, at)
        if known.comment is not None and sample.startswith(known.comment, at):
            comment = _LINE.match(sample, at)
        found = blank or empty or comment
        if not found or found.end() == len(sample):
            break
        if not blank:
            left_out.append(found[0])
        at, lines = found.end(), lines + 1
    return at, lines


def _after_titles(sample: str, known: CsvOptions, *, whole: bool) -> int:
    """Return the number of characters of the titles above a table, or 0."""
    best = (0, 0, 0)
    for delimiter, quote in _ways(sample, known, whole=whole):
        starts, rows = _rows(sample, Dialect(delimiter, quote, known.escape))
        if not whole:
            starts, rows = starts[:-1], rows[:-1]
        place, width = _first_row(rows, delimiter)
        if place is None:
            continue
        if place == 0:
            return 0  # the table begins at once
        if width > best[1]:
            best = (starts[place], width, place)
    return best[0]


def _rows(sample: str, dialect: Dialect) -> tuple[list[int], list[list[str]]]:
    """Return the first rows, and the character at which each begins."""
    ends = [0]
    lines = StringIO(sample, newline="").readlines()
    for line in lines:
        ends.append(ends[-1] + len(line))
    starts, rows, begun = list[int](), list[list[str]](), 0
    reader = dialect.rows(lines)
    try:
        for row in reader:
            starts.append(ends[begun])
            rows.append(row)
            begun = reader.line_num
            if len(rows) == _MOST_ROWS:
                break
    except csv.Error:
        pass
    return starts, rows


def _first_row(rows: Sequence[Sequence[str]], delimiter: str) -> tuple[int | None, int]:
    """Return the place of a table's first row, and its width; None if the rows are not a table of several columns."""
    counts = Counter(len(row) for row in rows if any(cell.strip() for cell in row))
    width, _ = max(counts.items(), key=lambda pair: (pair[1] * (pair[0] > 1), pair[0]), default=(0, 0))
    if width <= 1:
        return None, 0
    place = next(place for place, row in enumerate(rows) if len(row) == width and any(cell.strip() for cell in row))
    below = [row for row in rows[place:] if any(cell.strip() for cell in row)]
    least = _LEAST_SHARE if place else _LEAST_AT_ONCE
    if sum(len(row) == width for row in below) < len(below) * least:
        return None, 0
    if place == 0:
        place = _below_padded_titles(rows, width)
        return place, width
    if place > _MOST_LINES or len(below) < 2 or not _sure(rows, place, below, delimiter):
        return None, 0
    return place, width


def _sure(rows: Sequence[Sequence[str]], place: int, below: Sequence[Sequence[str]], delimiter: str) -> bool:
    """Return whether the rows before `place` are surely titles, and not rows of a table with one column."""
    blank = any(not any(cell.strip() for cell in row) for row in rows[1:place])
    if blank or len(below[0]) >= _LEAST_WIDTH or _is_header(below):
        return True
    return delimiter != "," and _has_values(below)  # `1,5` can be a decimal number


def _below_padded_titles(rows: Sequence[Sequence[str]], width: int) -> int:
    """Return the place of the header below titles that a spreadsheet filled up with empty cells, or 0."""
    if width < _LEAST_WIDTH:
        return 0
    for place, row in enumerate(rows[:_MOST_LINES]):
        filled = sum(bool(cell.strip()) for cell in row)
        if filled > 1:
            complete = place and filled == width == len(row)
            return place if complete and _is_header(rows[place:]) else 0
    return 0


def _is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row has texts only, and a value of another type is below one of them."""
    first, below = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    if any(_typed(cell) for cell in first):
        return False
    return any(
        cells and all(map(_typed, cells))
        for cells in ([row[place] for row in below if row[place].strip()] for place in range(len(first)))
    )


def _has_values(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether all values of one column have another type than text, such as the years of `ä;1978`."""
    whole = [row for row in rows if len(row) == len(rows[0])]
    return any(all(_typed(cell) for cell in cells) for cells in zip(*whole, strict=True))


def _ways(sample: str, known: CsvOptions, *, whole: bool) -> Iterator[tuple[str, str]]:
    """Yield each delimiter and quote that the file can have."""
    for delimiter in (known.delimiter,) if known.delimiter else DELIMITERS:
        for quote in (known.quote,) if known.quote is not None else quotes_of(sample, delimiter, whole=whole):
            yield delimiter, quote


def _typed(cell: str) -> bool:
    return any(re.fullmatch(kind.pattern, cell.strip()) for kind in KINDS)
