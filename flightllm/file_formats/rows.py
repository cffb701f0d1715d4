"""Reads the rows of one CSV file: each must be as wide as the first row, or an error names its line."""

import csv
import io
import lzma
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Self

import pyarrow as pa

from flightllm.errors import InvalidInputError
from flightllm.file_formats.columns import MOST_COLUMNS
from flightllm.file_formats.compressed import ending, open_bytes
from flightllm.file_formats.dialects import LONGEST, SAMPLE, TOO_LONG, UNENDED, Dialect, dialect_of, row_fits
from flightllm.file_formats.encodings import encoding_of
from flightllm.file_formats.options import CsvOptions
from flightllm.file_formats.titles import table_start

_MARK = "\ufeff"
_COMMENT = "#"
DAMAGED = (OSError, EOFError, lzma.LZMAError, pa.ArrowException)
"""The exceptions that reading a damaged compressed file raises."""


class QuoteError(InvalidInputError):
    """A row has wrong quotes."""


class CsvRows:
    """One open CSV file. `first` is its first row; iterating yields the other rows, all of that width."""

    def __init__(self, path: Path, known: CsvOptions) -> None:
        """Open a file, and detect the options that `known` leaves open.

        Raises:
            InvalidInputError: the file cannot be read as text.
        """
        try:
            self.encoding = known.encoding or self._encoding(path)
            raw = open_bytes(path)
        except DAMAGED as error:
            raise InvalidInputError(f"it is damaged: {error}") from error
        self._file = io.TextIOWrapper(raw, encoding=self.encoding, newline="")
        try:
            self._begin(path, known)
        except BaseException:
            self._file.close()
            raise

    def _begin(self, path: Path, known: CsvOptions) -> None:
        """Detect the dialect, and read the first row."""
        try:
            start = self._file.read(SAMPLE)
        except DAMAGED as error:
            raise InvalidInputError(f"it is damaged: {error}") from error
        except UnicodeError as error:
            raise self.not_text(error) from error
        whole = len(start) < SAMPLE
        start = start.removeprefix(_MARK)  # for example in UTF-16 with a given byte order
        begin = table_start(start, known, whole=whole)
        self._skipped, self.note = begin.lines, begin.note
        start = start[begin.characters :]
        self._comment = known.comment or _COMMENT
        """The mark of comments."""
        self.all_comments = known.comment is not None
        """Whether each line with the mark is a comment; if not, its width must also differ from that of the table."""
        self.comments = 0
        """The number of comments that were left out."""
        if begin.delimiter is not None:
            known = replace(known, delimiter=known.delimiter or begin.delimiter)
        if start and known.delimiter is None and ending(path) in {".tsv", ".tab"}:
            self.dialect = Dialect("\t", '"' if known.quote is None else known.quote, known.escape)
        else:
            self.dialect = dialect_of(start, known, whole=whole)
        self._reader = self.dialect.rows(chain(self._rest_of_line(start), self._lines()))
        self.nulls = {"", *known.null}
        self.first = next(self._rows(), [])
        if len(self.first) > MOST_COLUMNS:
            raise InvalidInputError(
                f"its first line has {len(self.first):,} columns, but at most {MOST_COLUMNS:,} are possible: name the"
                " delimiter by the option delimiter, or write a row for each value"
            )

    @property
    def lines_read(self) -> int:
        """Return the number of lines of the rows read so far, and of those skipped."""
        return self._skipped + int(self._reader.line_num)

    @staticmethod
    def _encoding(path: Path) -> str:
        with open_bytes(path) as file:
            return encoding_of(file)

    def _rest_of_line(self, start: str) -> Iterator[str]:
        """Yield the lines of text that is already read, and complete the last line from the file."""
        lines = list(io.StringIO(start, newline=""))
        last = lines.pop() if lines else ""
        yield from lines
        if last.endswith("\r"):  # a line feed can follow, as part of this line end
            after = self._file.read(1)
            yield last + "\n" * (after == "\n")
            if after.strip("\n"):
                yield from self._rest_of_line(after)
        else:
            yield last + (self._line() if not last.endswith("\n") else "")

    def _lines(self) -> Iterator[str]:
        return iter(self._line, "")

    def _line(self) -> str:
        """Return the next line, in memory as a whole; the limit keeps one line from taking all memory."""
        line = self._file.readline(LONGEST + 1)
        if len(line) > LONGEST:
            raise InvalidInputError(
                f"line {self.lines_read + 1} has more than {LONGEST:,} characters: end each row"
                " by a line break, or convert the file to Parquet"
            )
        return line

    def not_text(self, error: UnicodeError) -> InvalidInputError:
        """Return the error for bytes that are not valid in the encoding."""
        reason = error.reason if isinstance(error, UnicodeDecodeError | UnicodeEncodeError) else error
        return InvalidInputError(f"it is not valid {self.encoding}: {reason}; name its encoding by the option encoding")

    def __enter__(self) -> Self:
        """Return this object."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.close()

    def __iter__(self) -> Iterator[list[str | None]]:
        """Yield rows, with None for NULL.

        Raises:
            InvalidInputError: a row has another width, or wrong quotes; names its line.
        """
        width, nulls = len(self.first), self.nulls
        start = self.lines_read + 1
        for row in self._rows():
            if self._is_comment(row, width):
                self.comments += 1
                row.clear()
            elif len(row) != width and not self._fit(row):
                raise InvalidInputError(
                    f"line {start} has {_count(len(row), 'column')} where the first line has {width}"
                    f" ({self._separated}): quote values that contain {self.dialect.delimiter!r} or line breaks"
                )
            if row:
                yield [None if value in nulls else value for value in row]
            start = self.lines_read + 1

    def _is_comment(self, row: list[str], width: int) -> bool:
        if not row or not row[0].startswith(self._comment):
            return False
        return self.all_comments or len(row) != width

    def _fit(self, row: list[str]) -> bool:
        """Bring a row to the first row's width, or clear an empty row; return False if neither is possible."""
        width = len(self.first)
        if row_fits(row, self.first) or (not row and width == 1):  # a delimiter ends a line, or the only column is NULL
            row[width:] = [""] * (width - len(row))
        elif len(row) <= 1 and not "".join(row).strip():
            row.clear()
        else:
            return False
        return True

    @property
    def _separated(self) -> str:
        found = "; name another by the option delimiter" if self.dialect.guessed else ""
        return f"{self.dialect.delimiter!r} separates them{found}"

    @property
    def _requoted(self) -> str:
        mark = self.dialect.quote
        if not mark:
            return "double an escape character at the end of a value"
        return f"double each {mark} inside quotes, or set quote '' if {mark} is not a quote"

    def _rows(self) -> Iterator[list[str]]:
        start = self.lines_read + 1
        try:
            for row in self._reader:
                yield row
                start = self.lines_read + 1
        except csv.Error as error:
            wrong = "a quote is never closed" if UNENDED in str(error) else f"quotes are wrong ({error})"
            if TOO_LONG in str(error):
                wrong = f"a value has more than {LONGEST:,} characters, perhaps because a quote is never closed"
            raise QuoteError(f"line {start}: {wrong}; {self._requoted}") from error
        except UnicodeError as error:
            raise self.not_text(error) from error
        except DAMAGED as error:
            raise InvalidInputError(f"it is damaged after line {start - 1}: {error}") from error


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
