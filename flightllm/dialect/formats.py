"""Rewrite other servers' time formats with the letters of Rust's chrono, which DataFusion uses."""

import re
from collections.abc import Mapping

_LETTERS: Mapping[str, str] = {
    "YYYY": "%Y",
    "IYYY": "%G",
    "YY": "%y",
    "MMMM": "%B",
    "FMMonth": "%B",
    "Month": "",
    "MONTH": "",
    "Mon": "%b",
    "MON": "",
    "MM": "%m",
    "MI": "%M",
    "MS": "%3f",
    "US": "%6f",
    "FF3": "%3f",
    "FF6": "%6f",
    "FF9": "%9f",
    "DDD": "%j",
    "DD": "%d",
    "Dy": "%a",
    "FMDay": "%A",
    "HH24": "%H",
    "HH12": "%I",
    "HH": "%I",
    "SS": "%S",
    "AM": "%p",
    "PM": "%p",
    "IW": "%V",
    "Q": "%q",
}
"""The chrono letters for those of PostgreSQL, Oracle and Snowflake.

The value is empty for letters that pad with spaces or write capitals, because chrono has no equivalent.
"""
_PARTS = re.compile(r'"[^"]*"|[A-Za-z]+\d*|[^A-Za-z"]+|"')
_KNOWN = re.compile("|".join(sorted(_LETTERS, key=len, reverse=True)))
_SAME = "YmdHMSbBaApIjT%F"
_PERCENT = re.compile(r"%(-?)(.?)", re.DOTALL)


def from_letters(text: str) -> str:
    """Return `'YYYY-MM-DD HH24:MI'` as `'%Y-%m-%d %H:%M'`; texts in double quotes stay.

    Raises:
        ValueError: letters are unknown, or servers disagree about them; the message says what to write.
    """
    small = text.islower()
    if small and "mm" in text and "yy" not in text:
        raise ValueError(_advice(text, "mm"))  # some servers read these as minutes
    return "".join(_part(text, part, small=small) for part in _PARTS.findall(text))


def _part(text: str, part: str, *, small: bool) -> str:
    if part[0] == '"' and len(part) > 1:
        return part[1:-1]
    if not part[0].isalpha():
        return part
    written, at = "", 0
    letters = part.upper() if small else part
    while at < len(letters):
        found = _KNOWN.match(letters, at)
        if found is None and letters[at:].isdecimal():
            return written + letters[at:]
        if found is None and letters[at] == "T" and at:
            written, at = f"{written}T", at + 1  # as in YYYY-MM-DDTHH24
            continue
        meant = _LETTERS.get(found[0], "") if found else ""
        if not found or not meant or _goes_on(letters, found):
            raise ValueError(_advice(text, part[at:]))
        written += "%P" if small and meant == "%p" else meant
        at = found.end()
    return written


def _goes_on(letters: str, found: re.Match[str]) -> bool:
    """Return whether more of the same letter follow, as in SSSS, the seconds of a day."""
    return len(set(found[0])) == 1 and letters[found.end() : found.end() + 1] == found[0][0]


def _advice(text: str, letters: str) -> str:
    return (
        f"{letters!r} in the format {text!r} is unknown, or servers disagree about it: write the format with %, as"
        " in '%Y-%m-%d %H:%M:%S', where %b is the short and %B the long name of a month"
    )


def to_parse(text: str) -> str:
    """Return a format as `strptime` reads it here.

    Raises:
        ValueError: a letter is unknown, or has another meaning here.
    """
    return _PERCENT.sub(lambda found: _letter(text, found, ""), text.replace(".%f", "%.f").replace(".%g", "%.f"))


def to_write(text: str) -> str:
    """Return a format as `strftime` writes it here; `%f` is six digits of a second, `%g` three and `%n` nine.

    Raises:
        ValueError: a letter is unknown.
    """
    digits = {"f": "%6f", "g": "%3f", "n": "%9f", "y": "%y"}
    return _PERCENT.sub(lambda found: digits.get(found[2]) or _letter(text, found, "D"), text)


def _letter(text: str, found: re.Match[str], more: str) -> str:
    parsed = found.string[found.start() : found.start() + 3] == "%.f"
    if parsed or (found[2] and found[2] in _SAME + more):
        return found[0]
    raise ValueError(
        f"{found[0]} in the format {text!r} is unknown: write one of {' '.join(f'%{one}' for one in _SAME)}"
    )
