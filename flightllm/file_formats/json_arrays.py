"""Files that hold one JSON array of objects, as lines of one object each."""

import json
import re
from collections.abc import Iterator
from io import TextIOWrapper
from itertools import count
from pathlib import Path
from typing import TextIO

from flightllm.errors import InvalidInputError
from flightllm.file_formats.compressed import ending, open_bytes
from flightllm.file_formats.rows import DAMAGED

ENDINGS = (".json", ".jsonl", ".ndjson")
_HEAD = 4_096
"""The first character other than white space must be within this many bytes of the file's start."""
_CHUNK = 1 << 20
_MOST = 1 << 26
"""The most characters of one object, whose whole text is in memory."""
_SPACE = re.compile(r"[ \t\r\n]*")
_INSTEAD = "write an array of objects, as in [{…}, {…}], or one object per line"


def is_json_array(path: Path) -> bool:
    """Return whether a file is named like JSON and begins with `[`; False for a file that cannot be read."""
    if ending(path) not in ENDINGS or not path.is_file():
        return False
    try:
        with open_bytes(path) as file:
            return file.read(_HEAD).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")
    except DAMAGED:
        return False


def write_lines(path: Path, target: Path) -> None:
    """Write each object of an array to a line of its own. A chunk of the file and one object are in memory.

    Raises:
        InvalidInputError: the file is not an array of objects, ends early, or has too large an object. The message
            says where.
    """
    try:
        with (
            open_bytes(path) as file,
            TextIOWrapper(file, encoding="utf-8-sig") as texts,
            target.open("w", encoding="utf-8") as sink,
        ):
            for text in _Objects(texts):
                sink.write(text.replace("\n", " ").replace("\r", " "))  # no text of JSON holds these unescaped
                sink.write("\n")
    except UnicodeError as error:
        raise InvalidInputError("it is not UTF-8, as JSON must be: convert the file to UTF-8") from error
    except DAMAGED as error:
        raise InvalidInputError(f"it cannot be read: {error}") from error


class _Objects:
    """The texts of the objects of an array. The part of `_text` from `_at` on was read and not yet returned."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._text = ""
        self._at = 0
        self._ended = False

    def __iter__(self) -> Iterator[str]:
        """Yield the text of each object."""
        if self._take() != "[":
            raise InvalidInputError(f"it does not begin with '[': {_INSTEAD}")
        if self._next() == "]":
            self._take()
        else:
            yield from self._listed()
        if after := self._next():
            raise InvalidInputError(f"after the ']' of its array is {after!r}: {_INSTEAD}")

    def _listed(self) -> Iterator[str]:
        for number in count(1):
            yield self._object(number)
            after = self._take()
            if after == "]":
                return
            if after != ",":
                found = repr(after) if after else "nothing"
                raise InvalidInputError(f"after object {number} of its array is {found}, not ',' or ']'")

    def _read(self) -> None:
        """Read at least as many characters as are left, so that a large object is parsed only a few times."""
        left = self._text[self._at :]
        chunk = self._file.read(max(_CHUNK, len(left)))
        self._text, self._at, self._ended = left + chunk, 0, not chunk

    def _next(self) -> str:
        """Return the next character after white space without moving past it; an empty text at the end."""
        while True:
            if space := _SPACE.match(self._text, self._at):
                self._at = space.end()
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._read()

    def _take(self) -> str:
        """Return the next character after white space, and move past it; an empty text at the end."""
        found = self._next()
        self._at += len(found)
        return found

    def _object(self, number: int) -> str:
        if self._next() != "{":
            raise InvalidInputError(f"value {number} of its array is not an object: {_INSTEAD}")
        while True:
            try:
                _, end = json.JSONDecoder().raw_decode(self._text, self._at)
            except RecursionError as error:
                raise InvalidInputError(f"object {number} of its array is nested too deep") from error
            except json.JSONDecodeError as error:
                if self._ended:
                    raise InvalidInputError(f"object {number} of its array is not JSON: {error.msg}") from error
                if len(self._text) - self._at > _MOST:
                    raise InvalidInputError(
                        f"object {number} of its array is not JSON, or has more than {_MOST:,} characters"
                    ) from error
                self._read()
            except ValueError as error:  # Python refuses integers of thousands of digits
                raise InvalidInputError(f"object {number} of its array has a number of too many digits") from error
            else:
                found, self._at = self._text[self._at : end], end
                return found
