"""Which encoding a text file has."""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import IO

from flightllm.errors import InvalidInputError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark begins this one
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_OTHERS = ("cp1250", "cp1251", "cp1253", "cp1254", "koi8_r", "cp932", "gb18030", "euc_kr", "big5", "euc_jp")
"""What a text can be in that is neither Unicode nor Western, for charset-normalizer to choose from."""
WESTERN = "cp1252"
_CHUNK = 1 << 20
_SAMPLE = 1 << 16
_MULTIBYTE = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"  # characters of UTF-8
    rb"|([\x80-\xff])"
)
"""A character of UTF-8 beyond ASCII, or in its group a byte that is part of no such character."""
_MOSTLY = 0.5
"""The least share of valid characters, of those beyond ASCII, in a UTF-8 file that has wrong bytes."""
_NOT_WESTERN = re.compile(r"[^\W\d_][¡-¶¸-¿×÷\x80-\x9f‚ƒ„…†‡ˆ‰‹•˜™›][^\W\d_]|[À-ÿŠŒŽšœžŸ]{4}")
"""A sign between two letters, or four letters with accents in a row."""


def encoding_of(file: IO[bytes]) -> str:
    """Return the encoding of a file that is read from its start to its end: a mark says it, or the text itself.

    Text without a mark is UTF-8 wherever it can be. Else it is Western (cp1252, of which Latin-1's letters are a part)
    unless letters stand together as in no Western language: then charset-normalizer guesses.

    Raises:
        InvalidInputError: most of the text is UTF-8, but not all; names the first wrong line.
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
    """Return which UTF-16 a sample is in that has a zero in every second byte, as Western text has."""
    half = len(sample) // 2
    if half and sample[1::2].count(0) > half * 0.6 and sample[::2].count(0) < half * 0.2:
        return "utf-16-le"
    if half and sample[::2].count(0) > half * 0.6 and sample[1::2].count(0) < half * 0.2:
        return "utf-16-be"
    return None


@dataclass(slots=True)
class _Utf8:
    """Tells whether bytes that come in chunks are UTF-8, and keeps lines of them that have bytes beyond ASCII."""

    sample: bytearray = field(default_factory=bytearray)
    _decoder: codecs.IncrementalDecoder = field(default_factory=codecs.getincrementaldecoder("utf-8"))
    _lines: int = 1
    _wrong: tuple[int, int] | None = None
    """The first line that has a wrong byte, and the byte."""

    def see(self, chunk: bytes, *, last: bool = False) -> None:
        """Look at the next chunk."""
        if self._wrong is None:
            try:
                self._decoder.decode(chunk, last)
            except UnicodeDecodeError as error:  # its object begins with what the last chunk left over: no line end
                self._wrong = self._lines + _line_ends(error.object[: error.start]), error.object[error.start]
            self._lines += _line_ends(chunk)
        # a line that two chunks share comes together again, as nothing is put between them
        if len(self.sample) < _SAMPLE and not chunk.isascii():
            self.sample += b"\n".join(line for line in chunk.split(b"\n") if not line.isascii())

    def ended(self) -> bool:
        """Tell, after the last chunk, whether all was UTF-8.

        Raises:
            InvalidInputError: most of it was, but a line has a wrong byte.
        """
        self.see(b"", last=True)
        if self._wrong is None:
            return True
        found = _MULTIBYTE.findall(bytes(self.sample[:_SAMPLE]))
        if found.count(b"") < len(found) * _MOSTLY:
            return False
        line, byte = self._wrong
        raise InvalidInputError(
            f"line {line} has the byte 0x{byte:02x}, which is wrong in UTF-8, but most of the file is UTF-8: mend the"
            " line, or name the file's encoding by the option encoding"
        )


def _line_ends(chunk: bytes) -> int:
    return chunk.count(b"\n") or chunk.count(b"\r")


def _guessed(sample: bytes) -> str:
    try:
        text = sample.decode(WESTERN)
    except UnicodeDecodeError:  # five bytes mean nothing there
        text = ""
    accents = sum(not character.isascii() for character in text)
    if text and len(_NOT_WESTERN.findall(text)) * 10 <= accents:
        return WESTERN
    from charset_normalizer import from_bytes

    found = from_bytes(sample, cp_isolation=list(_OTHERS)).best()
    if found is not None:
        return found.encoding
    return WESTERN if text else "latin-1"
