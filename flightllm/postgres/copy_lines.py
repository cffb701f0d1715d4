"""Lines of COPY in text or CSV form, changed so that Arrow's CSV reader reads them as PostgreSQL does."""

import io
import re
from typing import Any

from flightllm.postgres.copy_options import CopyOptions
from flightllm.postgres.failures import WireError

_PAIR = re.compile(rb"\\(\r\n|.)", re.DOTALL)
_END = re.compile(rb"^\\\.\r?$", re.MULTILINE)

_EMPTY = re.compile(rb"^\r?\n", re.MULTILINE)


class Lines(io.RawIOBase):
    r"""The lines of a stream up to the end mark `\.`; what follows the mark is read and left out.

    In text form, an escaped line break or delimiter becomes another escape of the same letter. In CSV, an escaped quote
    becomes a doubled quote. `second` names the second column; with one, an empty line is an error.
    """

    def __init__(self, stream: io.RawIOBase, options: CopyOptions, longest: int, second: str = "") -> None:
        super().__init__()
        self._second = second
        self._stream = stream
        self._longest = longest
        self._is_csv = options.format == "csv"
        self._delimiter, self._quote, self._escape = (
            text.encode() for text in (options.delimiter, options.quote, options.escape)
        )
        quote, escape = re.escape(self._quote), re.escape(self._escape)
        self._inside = re.compile(escape + b"[" + quote + escape + b"]|" + quote + quote + b"?", re.DOTALL)
        self._is_quoted = False
        self._rest = b""
        self._ready = memoryview(b"")
        self._over = False

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; 0 bytes mean the end."""
        while not self._ready and not self._over:
            self._ready = memoryview(self._next())
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def _next(self) -> bytes:
        """Return the next whole lines."""
        data = self._stream.read(self._longest) or b""
        self._over = not data
        found = self._rest + data
        end = len(found) if self._over else found.rfind(b"\n") + 1
        lines, self._rest = found[:end], found[end:]
        if len(self._rest) > self._longest:
            raise WireError("54000", f"a row of COPY has more than {self._longest:,} bytes")
        return self._to_mark(self._doubled(lines) if self._is_csv else _PAIR.sub(self._other, lines))

    def _other(self, found: re.Match[bytes]) -> bytes:
        letter = found[1]
        if letter in (b"\n", b"\r\n"):
            return b"\\n"
        if letter == b"\r":
            return b"\\r"
        return b"\\%03o" % ord(letter) if letter == self._delimiter else found[0]

    def _doubled(self, lines: bytes) -> bytes:
        """Write quotes in values twice; a lone escape is a letter, and outside quotes each escape is one."""
        if self._escape == self._quote:
            return lines
        parts, at, inside = [], 0, self._is_quoted
        while at < len(lines):
            if not inside:
                end = lines.find(self._quote, at) + 1 or len(lines)
                inside = lines[end - 1 : end] == self._quote
                parts.append(lines[at:end])
                at = end
                continue
            found = self._inside.search(lines, at)
            if found is None:
                parts.append(lines[at:])
                break
            parts.append(lines[at : found.start()])
            if found[0] == self._quote:
                parts.append(self._quote)
                inside = False
            elif found[0][:1] == self._escape:
                parts.append(self._escape if found[0][1:] == self._escape else self._quote * 2)
            at = found.end()
        return b"".join(parts)

    def _to_mark(self, lines: bytes) -> bytes:
        """Cut lines at an end mark that is not inside quotes."""
        for mark in _END.finditer(lines):
            quotes = lines.count(self._quote, 0, mark.start()) if self._is_csv else 0
            if self._is_quoted == bool(quotes % 2):
                while self._stream.read(self._longest):
                    pass
                self._over, self._rest = True, b""
                self._check_empty(lines[: mark.start()])
                return lines[: mark.start()]
        self._check_empty(lines)
        if self._is_csv and lines.count(self._quote) % 2:
            self._is_quoted = not self._is_quoted
        return lines

    def _check_empty(self, lines: bytes) -> None:
        """Check that no line outside quotes is empty, unless the table has one column.

        Raises:
            WireError: the second column has no value.
        """
        if not self._second:
            return
        quoted, at = self._is_quoted, 0
        for empty in _EMPTY.finditer(lines):
            if self._is_csv and lines.count(self._quote, at, empty.start()) % 2:
                quoted = not quoted
            at = empty.start()
            if not quoted:
                raise WireError("22P04", f'missing data for column "{self._second}"')
