"""Reads the rows of a plain CSV file by pyarrow's reader, which needs a tenth of the time.

pyarrow reads a wrong quote, such as the second one of `"a"b`, without an error. So the bytes are checked on their way.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv

from flightllm.file_formats.compressed import open_bytes
from flightllm.file_formats.rows import CsvRows

_BLOCK: Final = 1 << 22
"""The bytes that are parsed at a time. A row must fit into them."""


class NotPlainError(Exception):
    """The file must be read row by row: a row has another width, a quote is unusual, or a value is not valid text."""


def plain_chunks(path: Path, rows: CsvRows) -> Iterator[pa.RecordBatch]:
    """Yield the rows after the first as batches of text columns, with NULLs as `rows` would yield them.

    Raises:
        NotPlainError: only `CsvRows` can read the file, or say what is wrong with it. Some rows were perhaps yielded.
    """
    dialect, quote, width = rows.dialect, rows.dialect.quote, len(rows.first)
    if not rows.encoding.startswith(("utf-8", "utf_8", "ascii")) or dialect.escape not in {None, quote} or width < 2:
        raise NotPlainError  # an empty line is a row of one column
    if rows.all_comments:
        raise NotPlainError  # pyarrow does not leave lines out
    if not dialect.delimiter.isascii() or not quote.isascii():
        raise NotPlainError
    names = [str(place) for place in range(width)]
    with open_bytes(path) as file:
        quotes = _Quotes(file, dialect.delimiter, quote)
        try:
            with pyarrow.csv.open_csv(
                pa.PythonFile(quotes, mode="r"),
                read_options=pyarrow.csv.ReadOptions(
                    column_names=names, skip_rows=rows.lines_read, block_size=_BLOCK, use_threads=False
                ),
                parse_options=pyarrow.csv.ParseOptions(
                    delimiter=dialect.delimiter, quote_char=quote or False, newlines_in_values=bool(quote)
                ),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    null_values=sorted(rows.nulls),
                    strings_can_be_null=True,
                ),
            ) as reader:
                for batch in reader:
                    if not quotes.usual:
                        raise NotPlainError
                    if len(batch):
                        yield batch
        except (pa.ArrowException, OSError, EOFError, ValueError) as error:
            raise NotPlainError from error
        if not quotes.usual:
            raise NotPlainError


class _Quotes:
    """A file whose bytes are checked while they are read: whether each quote opens, doubles or closes as is usual.

    An unusual quote is in the middle of an unquoted value, or text follows a closing quote.
    """

    def __init__(self, file: IO[bytes], delimiter: str, quote: str) -> None:
        self._file = file
        self._quote = ord(quote) if quote else -1
        self._edge = np.zeros(256, bool)
        """Whether a byte can be next to a value."""
        self._edge[[ord(delimiter), ord("\n"), ord("\r")]] = True
        self._rest = b""
        """The end of the previous block: its last byte that is not a quote, and the quotes after that byte."""
        self._before = 0
        """The number of quotes before `_rest`."""
        self.usual = True
        """Whether all quotes up to now are usual."""
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        data = self._file.read(size)
        if self._quote >= 0 and self.usual:
            self._check(self._rest + data if self._rest else b"\n" + data.removeprefix(BOM_UTF8), ended=not data)
        return data

    def close(self) -> None:
        """Leave the file open."""
        self.closed = True

    def _check(self, data: bytes, *, ended: bool) -> None:
        """Check each run of quotes by its length, the bytes around it, and the number of quotes before it."""
        if ended:
            data += b"\n"
        block, last = np.frombuffer(data, np.uint8), len(data.rstrip(bytes([self._quote]))) - 1
        found = np.flatnonzero(block[:last] == self._quote)
        if len(found):
            first = np.flatnonzero(np.diff(found, prepend=-2) != 1)
            lengths = np.diff(first, append=len(found))
            starts = found[first]
            begins, ends = self._edge[block[starts - 1]], self._edge[block[starts + lengths]]
            odd, inside = lengths % 2 == 1, (self._before + first) % 2 == 1
            wrong_odd = np.where(begins, inside & ~ends, ~(inside & ends))
            wrong_even = begins & ~ends & ~inside  # the value was empty, and text follows
            self.usual = not np.where(odd, wrong_odd, wrong_even).any()
        self._before += len(found)
        self.usual = self.usual and not (ended and self._before % 2)
        self._rest = data[last:]
