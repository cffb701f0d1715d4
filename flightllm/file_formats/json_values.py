"""Reads the values of a JSON file one by one: lines, values over several lines, or the elements of one array."""

import json
import re
from collections.abc import Callable, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from flightllm.common.written_float import WrittenFloat
from flightllm.errors import InvalidInputError
from flightllm.file_formats.compressed import open_bytes
from flightllm.file_formats.encodings import encoding_of
from flightllm.file_formats.rows import DAMAGED

ENDINGS = (".json", ".jsonl", ".ndjson")
_CHUNK = 1 << 20
_MOST = 1 << 26
"""The most characters of one value, whose whole text is in memory."""
_SPACE = re.compile(r"[ \t\r\n]*")
_CUT = 16
"""If an error is this close to the end of the text that was read, the text can be cut there."""
_OPEN_TEXT = "Unterminated string"
"""The start of the decoder's message about a text without its end; the message has the place of the text's start."""
_DIGITS = "Exceeds the limit"
_NO_COMMA = "leave the comma out"
_INSTEAD = "write one value per line, or one array, as in [{…}, {…}]"


class JsonValues:
    """The values of one open file, each a row. The part of `_text` from `_at` on was read and not yet returned."""

    def __init__(self, path: Path, *, digits: bool = False, twice: Callable[[str], None] | None = None) -> None:
        """Open a file.

        With `digits`, a number with a fraction is a `WrittenFloat`. `twice` gets each name that an object has twice.

        Raises:
            InvalidInputError: the file is damaged, or its text is mostly UTF-8 and has a wrong byte.
        """
        self._twice = twice
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._object if twice else None, parse_float=WrittenFloat if digits else None
        )
        try:
            with open_bytes(path) as file:
                self.encoding = encoding_of(file)
            self._file = TextIOWrapper(open_bytes(path), encoding=self.encoding)
        except DAMAGED as error:
            raise InvalidInputError(f"it is damaged: {error}") from error
        self._text = ""
        self._at = 0
        self._ended = False
        self._lines = 1
        """The number of the line in which `_text` begins."""
        self._before = 0
        """The number of characters of this line before `_text`."""
        self.size = 0
        """The number of characters of the last value."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __iter__(self) -> Iterator[Any]:
        """Yield each value.

        Raises:
            InvalidInputError: the file is not JSON, or a value is too large; the message names the line.
        """
        try:
            if self._next() == "\ufeff":
                self._at += 1  # a byte order mark
            if self._next() == "[" and not self._array_in_line():
                yield from self._elements()
                return
            while self._next():
                yield self._value()
                self._check_end()
        except UnicodeError as error:
            raise InvalidInputError(f"it is not valid {self.encoding}: convert the file to UTF-8") from error
        except DAMAGED as error:
            raise InvalidInputError(f"it is damaged: {error}") from error

    def _array_in_line(self) -> bool:
        """Return whether the first array is a value of its own, because it ends in its line and others follow."""
        try:
            _, end = self._decoder.raw_decode(self._text, self._at)
        except (ValueError, RecursionError):
            return False
        after = _SPACE.match(self._text, end)
        return (
            after is not None
            and "\n" not in self._text[self._at : end]
            and "\n" in after[0]
            and (self._text[after.end() : after.end() + 1] in {*"[{"})
        )

    def _elements(self) -> Iterator[Any]:
        self._at += 1
        if self._next() == "]":
            self._at += 1
        else:
            while True:
                yield self._value()
                mark = self._next()
                self._at += 1
                if mark == "]":
                    break
                if mark != ",":
                    raise self._wrong(self._at - 1, f"expected ',' or ']' after a value, found {_shown(mark)}")
                if self._next() == "]":
                    raise self._wrong(self._at, f"a comma is before {_shown(']')}: {_NO_COMMA}")
        if after := self._next():
            raise self._wrong(self._at, f"expected nothing after the end of the array, found {_shown(after)}")

    def _check_end(self) -> None:
        """Raise if a mark such as a comma follows a value that is not in an array."""
        mark = self._next()
        if mark and mark in ",]}:":
            raise self._wrong(self._at, f"expected the next value, found {_shown(mark)}; {_INSTEAD}")

    def _read(self) -> None:
        """Read at least as many characters as are left, so that a large value is parsed only a few times."""
        self._lines, self._before = self._place(self._at)
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

    def _value(self) -> Any:
        self._next()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except RecursionError as error:
                raise self._wrong(self._at, "a value is nested too deep") from error
            except json.JSONDecodeError as error:
                cut = error.msg.startswith(_OPEN_TEXT) or error.pos >= len(self._text) - _CUT
                if self._ended or not cut:
                    raise self._wrong(error.pos, self._reason(error)) from error
                if len(self._text) - self._at > _MOST:
                    wrong = f"a value has more than {_MOST:,} characters, perhaps because its end is missing"
                    raise self._wrong(self._at, wrong) from error
            except ValueError as error:
                if _DIGITS in str(error):
                    raise self._wrong(self._at, "a number has too many digits") from error
                raise
            else:
                if end < len(self._text) or self._ended or isinstance(value, dict | list | str):
                    self.size, self._at = end - self._at, end
                    return value
            self._read()

    def _reason(self, error: json.JSONDecodeError) -> str:
        """Return what is wrong in the words of this module."""
        before = self._text[self._at : error.pos].rstrip()
        found = _shown(self._text[error.pos : error.pos + 1])
        if before.endswith(",") and found[1:2] in {"}", "]"}:
            return f"a comma is before {found}: {_NO_COMMA}"
        if error.msg.startswith(_OPEN_TEXT):
            return "a text has no end: its closing quote is missing"
        if "control character" in error.msg:
            return "a text has a line break or a control character, perhaps because its closing quote is missing"
        return f"it is not JSON: {error.msg.lower()}, found {found}"

    def _place(self, at: int) -> tuple[int, int]:
        """Return the number of the line with a character of `_text`, and the number of characters before it there."""
        start = self._text.rfind("\n", 0, at) + 1
        return self._lines + self._text.count("\n", 0, at), at - start if start else self._before + at

    def _wrong(self, at: int, what: str) -> InvalidInputError:
        line, column = self._place(at)
        begun, _ = self._place(self._at)
        since = f" (the value begins in line {begun:,})" if begun < line else ""
        return InvalidInputError(f"line {line:,}, column {column + 1:,}: {what}{since}")

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Return an object; its last value of a name counts."""
        made = dict(pairs)
        if len(made) != len(pairs) and self._twice is not None:
            names = [name for name, _ in pairs]
            self._twice(next(name for name in made if names.count(name) > 1))
        return made


def _shown(character: str) -> str:
    return repr(character) if character else "the end of the file"
