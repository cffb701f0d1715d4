"""Which encoding a text file has."""

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import IO

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
_NOT_WESTERN = re.compile(r"[^\W\d_][¡-¶¸-¿×÷\x80-\x9f‚ƒ„…†‡ˆ‰‹•˜™›][^\W\d_]|[À-ÿŠŒŽšœžŸ]{4}")
"""A sign between two letters, or four letters with accents in a row."""


def encoding_of(file: IO[bytes]) -> str:
    """Return the encoding of a file that is read from its start to its end: a mark says it, or the text itself.

    Text without a mark is UTF-8 wherever it can be. Else it is Western (cp1252, of which Latin-1's letters are a part)
    unless letters stand together as in no Western language: then charset-normalizer guesses.
    """
    chunks = _chunks(file)
    first = next(chunks, b"")
    for mark, name in _MARKS:
        if first.startswith(mark):
            return name
    if wide := _without_mark(first[:_SAMPLE]):
        return wide
    sample = _not_utf8([first], chunks)
    return "utf-8" if sample is None else _guessed(sample)


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


def _not_utf8(first: Iterable[bytes], rest: Iterable[bytes]) -> bytes | None:
    """Return lines that have bytes beyond ASCII, if the text is not UTF-8; else None."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    sample, valid = bytearray(), True
    for part in (first, rest):
        for chunk in part:
            if valid:
                try:
                    decoder.decode(chunk)
                except UnicodeDecodeError:
                    valid = False
            if len(sample) < _SAMPLE and not chunk.isascii():
                sample += b"\n".join(line for line in chunk.split(b"\n") if not line.isascii())
    try:
        decoder.decode(b"", final=valid)
    except UnicodeDecodeError:
        valid = False
    return None if valid else bytes(sample[:_SAMPLE])


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
