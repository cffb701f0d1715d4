"""Detects the encoding of a text file."""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import IO

from flightllm.errors import InvalidInputError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, because this mark begins with that of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_OTHERS = ("cp1250", "cp1251", "cp1253", "cp1254", "koi8_r", "cp932", "gb18030", "euc_kr", "big5", "euc_jp")
"""The encodings among which charset-normalizer chooses, for text that is neither Unicode nor Western."""
WESTERN = "cp1252"
_CHUNK = 1 << 20
_SAMPLE = 1 << 16
_MULTIBYTE = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"  # characters of UTF-8
    rb"|([\x80-\xff])"
)
"""Matches a non-ASCII character of UTF-8. Its group matches a byte that is part of no such character."""
_MOSTLY = 0.5
"""The least share of valid characters among non-ASCII ones, for a file that counts as UTF-8 with wrong bytes."""
_NOT_WESTERN = re.compile(r"[^\W\d_][¡-¶¸-¿×÷\x80-\x9f‚ƒ„…†‡ˆ‰‹•˜™›][^\W\d_]|[À-ÿŠŒŽšœžŸ]{4}")
"""Matches a sign between two letters, or four letters with accents in a row: unlikely in Western text."""


def encoding_of(file: IO[bytes]) -> str:
    """Return the encoding of a file, by its byte order mark or by its text; reads the file to its end.

    Text without a mark is UTF-8 if it is valid UTF-8. Otherwise it is Western (cp1252, a superset of Latin-1's
    letters), unless it has letters in unlikely positions: then charset-normalizer guesses.

    Raises:
        InvalidInputError: most of the text is UTF-8, but some is not; names the first wrong line.
    """
    chunks = _chunks(file)
    first = next(chunks, b"")
    for mark, name in _MARKS:
        if first.startswith(mark):
            return name
    if wide := _without_mark(first[:_SAMPLE]):
        return wide
    looked = _Utf8()
    for chunk in chain([first], chunks):
        looked.see(chunk)
    return "utf-8" if looked.ended() else _guessed(bytes(looked.sample[:_SAMPLE]))


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK):
        yield chunk


def _without_mark(sample: bytes) -> str | None:
    """Return the byte order of UTF-16 text without a mark: Western text then has a zero in every second byte."""
    half = len(sample) // 2
    if half and sample[1::2].count(0) > half * 0.6 and sample[::2].count(0) < half * 0.2:
        return "utf-16-le"
    if half and sample[::2].count(0) > half * 0.6 and sample[1::2].count(0) < half * 0.2:
        return "utf-16-be"
    return None


@dataclass(slots=True)
class _Utf8:
    """Checks whether chunks of bytes are UTF-8, and collects sample lines with non-ASCII bytes."""

    sample: bytearray = field(default_factory=bytearray)
    _decoder: codecs.IncrementalDecoder = field(default_factory=codecs.getincrementaldecoder("utf-8"))
    _lines: int = 1
    _wrong: tuple[int, int] | None = None
    """The number of the first line with a wrong byte, and that byte."""

    def see(self, chunk: bytes, *, last: bool = False) -> None:
        """Check the next chunk."""
        if self._wrong is None:
            try:
                self._decoder.decode(chunk, last)
            except UnicodeDecodeError as error:
                # The error's object starts with the bytes left from the last chunk, which have no line end.
                self._wrong = self._lines + _line_ends(error.object[: error.start]), error.object[error.start]
            self._lines += _line_ends(chunk)
        # no separator is added, so a line in two chunks is joined again
        if len(self.sample) < _SAMPLE and not chunk.isascii():
            self.sample += b"\n".join(line for line in chunk.split(b"\n") if not line.isascii())

    def ended(self) -> bool:
        """Return, after the last chunk, whether all bytes were UTF-8.

        Raises:
            InvalidInputError: most of the text was UTF-8, but a line has a wrong byte.
        """
        self.see(b"", last=True)
        if self._wrong is None:
            return True
        found = _MULTIBYTE.findall(bytes(self.sample[:_SAMPLE]))
        if found.count(b"") < len(found) * _MOSTLY:
            return False
        line, byte = self._wrong
        raise InvalidInputError(
            f"line {line} has the byte 0x{byte:02x}, which is wrong in UTF-8, but most of the file is UTF-8: correct"
            " the line, or name the file's encoding by the option encoding"
        )


def _line_ends(chunk: bytes) -> int:
    return chunk.count(b"\n") or chunk.count(b"\r")


def _guessed(sample: bytes) -> str:
    try:
        text = sample.decode(WESTERN)
    except UnicodeDecodeError:  # cp1252 leaves five bytes undefined
        text = ""
    accents = sum(not character.isascii() for character in text)
    if text and len(_NOT_WESTERN.findall(text)) * 10 <= accents:
        return WESTERN
    from charset_normalizer import from_bytes

    found = from_bytes(sample, cp_isolation=list(_OTHERS)).best()
    if found is not None:
        return found.encoding
    return WESTERN if text else "latin-1"
