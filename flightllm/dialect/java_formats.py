"""Rewrite the time formats of Java, which Spark and Databricks use, with the letters of Rust's chrono."""

import re
from collections.abc import Iterator
from typing import Final

_PART: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+|'")
_WRITTEN: Final = {
    "y": "%-Y",
    "yy": "%y",
    "yyyy": "%Y",
    "M": "%-m",
    "MM": "%m",
    "MMM": "%b",
    "MMMM": "%B",
    "L": "%-m",
    "LL": "%m",
    "LLL": "%b",
    "LLLL": "%B",
    "d": "%-d",
    "dd": "%d",
    "D": "%-j",
    "DDD": "%j",
    "E": "%a",
    "EE": "%a",
    "EEE": "%a",
    "EEEE": "%A",
    "a": "%p",
    "H": "%-H",
    "HH": "%H",
    "h": "%-I",
    "hh": "%I",
    "m": "%-M",
    "mm": "%M",
    "s": "%-S",
    "ss": "%S",
    "SSS": "%3f",
    "SSSSSS": "%6f",
    "SSSSSSSSS": "%9f",
    "X": "Z",
    "XX": "Z",
    "XXX": "Z",
    "x": "+00",
    "xx": "+0000",
    "xxx": "+00:00",
    "Z": "+0000",
    "z": "UTC",
    "Q": "%q",
    "q": "%q",
}
"""How a time is written; times have no zone here, and are those of UTC."""
_READ: Final = {
    "y": "%Y",
    "yy": "%y",
    "yyyy": "%Y",
    "M": "%m",
    "MM": "%m",
    "MMM": "%b",
    "MMMM": "%B",
    "d": "%d",
    "dd": "%d",
    "E": "%a",
    "EEE": "%a",
    "EEEE": "%A",
    "a": "%p",
    "H": "%H",
    "HH": "%H",
    "h": "%I",
    "hh": "%I",
    "m": "%M",
    "mm": "%M",
    "s": "%S",
    "ss": "%S",
    "D": "%j",
    "DDD": "%j",
}
"""How a text is read."""
_USUAL: Final = (("%Y", "%y", "1970"), ("%m", "%b", "%B", "%j", "01"), ("%d", "%j", "01"))
"""The letters of a part, and the text that a format without them adds."""
_CLOCK: Final = (("%M", "00"), ("%S", "00"))
"""The parts after an hour, and their texts."""


def to_write(text: str) -> str:
    """Return `yyyy-MM-dd'T'HH` as `%Y-%m-%dT%H`.

    Raises:
        ValueError: letters have no counterpart; the message says what to write.
    """
    return "".join(_letters(text, _WRITTEN))


def to_read(text: str) -> tuple[str, str]:
    """Return a format that reads a text, and the text to add at its end for the parts that the format lacks.

    Raises:
        ValueError: letters have no counterpart; the message says what to write.
    """
    parts = list(_letters(text, _READ))
    missing = [(names[0], names[-1]) for names in _USUAL if not set(names) & set(parts)]
    if {"%H", "%I"} & set(parts):
        missing += [pair for pair in _CLOCK if pair[0] not in parts]
    written = "".join(parts).replace(".%.f", "%.f")
    return written + "".join(f" {letter}" for letter, _ in missing), "".join(f" {usual}" for _, usual in missing)


def _letters(text: str, known: dict[str, str]) -> Iterator[str]:
    for found in _PART.finditer(text):
        part = found[0]
        if found[1] is not None:
            yield found[1].replace("''", "'").replace("%", "%%") or "'"
        elif not found[2]:
            if set(part) & set("[]{}#'"):
                raise ValueError(_advice(text, part))
            yield part.replace("%", "%%")
        elif known is _READ and set(part) == {"S"}:
            yield "%.f"
        elif part in known:
            yield known[part]
        else:
            raise ValueError(_advice(text, part))


def _advice(text: str, part: str) -> str:
    return (
        f"{part!r} in the format {text!r} has no counterpart here: write the format with yyyy, yy, MM, MMM, MMMM, dd,"
        " EEE, EEEE, HH, hh, mm, ss, SSS, SSSSSS, a, and texts between single quotes"
    )
