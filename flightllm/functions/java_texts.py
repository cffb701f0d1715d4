"""Texts that Java and Spark make of values: formats, numbers in other bases, parts of addresses, and hashes."""

import hashlib
import re
import zlib
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Final
from urllib.parse import quote_plus, unquote_plus, urlsplit

import pyarrow as pa

from flightllm.errors import SqlError
from flightllm.functions.exact_decimals import rounded
from flightllm.functions.own import OwnFunction
from flightllm.functions.rows import TEXTS, each_row
from flightllm.functions.text_formats import FORMAT_ARGUMENTS
from flightllm.functions.text_parts import by_pattern, separated
from flightllm.functions.value_texts import java_text

JAVA_FORMAT, GROUPED, OTHER_BASE, SPLIT_AT_MOST = "__java_format", "__grouped", "__other_base", "__split_at_most"
URL_ENCODED, URL_DECODED, URL_PART = "__url_encoded", "__url_decoded", "__url_part"
SHA_1, CRC_32, HALF_UP = "__sha_1", "__crc_32", "__half_up"
"""The names of the functions in SQL."""
_PLACE: Final = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(]*)(\d*)(?:\.(\d+))?([a-zA-Z%])|%")
_WIDEST: Final = 1_000
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MOST: Final = 2**64
_KINDS: Final = ("Utf8", "LargeUtf8", "Boolean", "Int", "UInt", "Float", "Decimal", "Null")


def java_formats(templates: pa.Array, values: pa.Array, types: pa.Array) -> pa.Array:
    """Return templates with values in place of `%s`, `%d`, `%.2f` and `%2$s`; a NULL is the text null.

    Raises:
        SqlError: a place has no value, or its letter does not fit the value.
    """
    rows = zip(templates.to_pylist(), values.to_pylist(), types.to_pylist(), strict=True)
    return pa.array([None if text is None else _filled(text, given, kinds) for text, given, kinds in rows], pa.string())


def _filled(template: str, values: list[str | None], kinds: list[str]) -> str:
    count = 0

    def one(found: re.Match[str]) -> str:
        nonlocal count
        letter = found[5]
        if letter in {"%", "n"}:
            return "%" if letter == "%" else "\n"
        if letter is None or max(int(found[3] or 0), int(found[4] or 0)) > _WIDEST:
            raise SqlError(f"the format {template[:100]!r} has the place {found[0][:40]!r}: write %s, %d or %.2f")
        count += not found[1]
        place = int(found[1] or count)
        if not 1 <= place <= len(values):
            raise SqlError(f"the format {template[:100]!r} has a place {place}, and there are {len(values)} values")
        text = _one(found, values[place - 1], kinds[place - 1])
        return text.ljust(int(found[3] or 0)) if "-" in found[2] else text.rjust(int(found[3] or 0))

    return _PLACE.sub(one, template)


def _one(found: re.Match[str], value: str | None, kind: str) -> str:
    """Return the text of one value; its width is still missing."""
    letter, flags, digits = found[5], found[2], found[4]
    if not kind.startswith(_KINDS) or kind.startswith("Interval"):
        raise SqlError(f"a value of the type {kind} has no text in a format: write CAST(x AS STRING) around it")
    if value is None:
        return "null"[: int(digits or 4)]
    whole, real = kind.startswith(("Int", "UInt")), kind.startswith(("Float", "Decimal"))
    if letter in "sS":
        text = java_text(float(value)) if kind.startswith("Float") else value
        text = text[: int(digits)] if digits is not None else text
        return text.upper() if letter == "S" else text
    if letter == "d" and whole:
        return _signed(Decimal(value), f"{',' if ',' in flags else ''}.0f", found)
    if letter == "f" and real:
        most = int(digits if digits is not None else 6)
        if kind.startswith("Float") and not Decimal(value).is_finite():
            return java_text(float(value))
        number = Decimal(repr(float(value)) if kind.startswith("Float") else value)
        return _signed(rounded(number, most, ROUND_HALF_UP), f"{',' if ',' in flags else ''}.{most}f", found)
    if letter in "eE" and kind.startswith("Float"):
        return _signed(Decimal(float(value)), f".{digits if digits is not None else 6}{letter}", found)
    if letter in "xXo" and whole and int(value) >= 0:
        return format(int(value), letter).rjust(int(found[3] or 0) if "0" in flags else 0, "0")
    raise SqlError(
        f"{found[0]} in a format does not fit a value of the type {kind}: write %s for a text, %d for a whole number,"
        " and %.2f for a number with a fraction"
    )


def _signed(number: Decimal, form: str, found: re.Match[str]) -> str:
    flags, width = found[2], int(found[3] or 0)
    negative = number.is_signed()
    digits = format(number.copy_abs(), form)
    before, after = ("(", ")") if negative and "(" in flags else ("-" if negative else "", "")
    if not negative:
        before = "+" if "+" in flags else " " if " " in flags else ""
    zeros = width - len(before) - len(digits) - len(after) if "0" in flags and "-" not in flags else 0
    return f"{before}{'0' * max(0, zeros)}{digits}{after}"


def grouped(numbers: pa.Array, digits: pa.Array, types: pa.Array) -> pa.Array:
    """Return numbers with commas and so many digits after the point; halves are rounded to even digits.

    Raises:
        SqlError: more digits are asked for than a text of a row should have.
    """

    def one(text: str | None, most: int | None, kind: str) -> str | None:
        if text is None or most is None or most < 0:
            return None
        if most > _WIDEST:  # one row could take all memory: 2,147,483,647 digits are 2 GiB
            raise SqlError(
                f"format_number can write at most {_WIDEST:,} digits after the point, not {most:,}:"
                " write a smaller number"
            )
        number = _digits(float(text), most) if kind.startswith("Float") else Decimal(text)
        if not number.is_finite():
            return {"Infinity": "∞", "-Infinity": "-∞"}.get(str(number), "NaN")
        return format(rounded(number, most, ROUND_HALF_EVEN), f",.{most}f")

    rows = zip(numbers.to_pylist(), digits.to_pylist(), types.to_pylist(), strict=True)
    return pa.array([one(*row) for row in rows], pa.string())


def _digits(number: float, most: int) -> Decimal:
    """Return a double by its shortest text if that needs no rounding, as Java does; else all of its digits."""
    short = Decimal(repr(number))
    return short if short.is_finite() and -int(short.as_tuple().exponent) <= most else Decimal(number)


def half_up(numbers: pa.Array, digits: pa.Array) -> pa.Array:
    """Return doubles with a number of digits after the point: 1.005 becomes 1.01, as the half in its text says."""
    return each_row(_half_up, numbers, digits, kind=pa.float64())


def _half_up(number: float, digits: int) -> float:
    value = Decimal(repr(number))
    if not value.is_finite() or -value.as_tuple().exponent <= digits:  # type: ignore[operator]
        return number
    return float(rounded(value, digits, ROUND_HALF_UP))


def other_bases(texts: pa.Array, before: pa.Array, after: pa.Array) -> pa.Array:
    """Return numbers of one base in another; a negative base is for signed results, as in MySQL and Hive."""
    return each_row(_in_base, texts, before, after)


def _in_base(text: str, before: int, after: int) -> str | None:
    text = text.strip()
    if not text or not 2 <= before <= len(_DIGITS) or not 2 <= abs(after) <= len(_DIGITS):
        return None
    negative, number = text.startswith("-"), 0
    for sign in text.removeprefix("-").upper():
        digit = _DIGITS.find(sign)
        if not 0 <= digit < before:
            break
        number = number * before + digit
    number = min(number, _MOST - 1)
    if negative and after > 0:
        number = (-number) % _MOST
    made = ""
    while number:
        number, rest = divmod(number, abs(after))
        made = _DIGITS[rest] + made
    return f"{'-' if negative and after < 0 else ''}{made or '0'}"


def split_at_most(texts: pa.Array, patterns: pa.Array, most: pa.Array) -> pa.Array:
    """Return the texts between the matches of a pattern, at most so many if the number is above 0.

    Raises:
        SqlError: RE2 cannot read a pattern.
    """
    return by_pattern(_parts, texts, patterns, most)


def _parts(texts: pa.Array, pattern: str, most: int) -> list[list[str]]:
    return separated(texts, pattern, most) if pattern else [_letters(text, most) for text in texts.to_pylist()]


def _letters(text: str, most: int) -> list[str]:
    letters = list(text) or [""]
    return letters if most <= 0 else [*letters[: most - 1], "".join(letters[most - 1 :])]


def url_encoded(texts: pa.Array) -> pa.Array:
    """Return texts for an address: a space is a plus sign."""
    return each_row(lambda text: quote_plus(text, safe="*").replace("~", "%7E"), texts)


def url_decoded(texts: pa.Array) -> pa.Array:
    """Return texts of an address as they were before.

    Raises:
        SqlError: a text has a percent sign without two digits after it.
    """
    return each_row(_decoded, texts)


def _decoded(text: str) -> str:
    if re.search(r"%(?![0-9A-Fa-f]{2})", text):
        raise SqlError(f"{text[:100]!r} cannot be decoded: each % must have two hexadecimal digits after it")
    return unquote_plus(text)


def url_parts(texts: pa.Array, parts: pa.Array, keys: pa.Array) -> pa.Array:
    """Return a part of an address: HOST, PATH, QUERY, REF, PROTOCOL, FILE, AUTHORITY or USERINFO.

    With a key, return the value of this key in the query.
    """
    return each_row(_part, texts, parts, keys)


def _part(text: str, part: str, key: str) -> str | None:
    try:
        url = urlsplit(text)
    except ValueError as error:
        raise SqlError(f"{text[:100]!r} is not a valid address: {error}") from error
    query = f"?{url.query}" if url.query else ""
    name, _, host = url.netloc.rpartition("@")
    found = {
        "HOST": (host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]) or None,
        "PATH": url.path,
        "QUERY": url.query or None,
        "REF": url.fragment or None,
        "PROTOCOL": url.scheme or None,
        "FILE": f"{url.path}{query}",
        "AUTHORITY": url.netloc or None,
        "USERINFO": name or None,
    }.get(part)
    if not key or found is None or part != "QUERY":
        return None if key else found
    return next((one.partition("=")[2] for one in found.split("&") if one.startswith(f"{key}=")), None)


def sha_1(texts: pa.Array) -> pa.Array:
    """Return SHA-1 hashes as hexadecimal digits."""
    return each_row(lambda text: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(), texts)


def crc_32(texts: pa.Array) -> pa.Array:
    """Return checksums."""
    return pa.array([None if one is None else zlib.crc32(one.encode()) for one in texts.to_pylist()], pa.int64())


FUNCTIONS: Final = (
    OwnFunction(java_formats, FORMAT_ARGUMENTS, pa.string(), JAVA_FORMAT),
    OwnFunction(grouped, (pa.string(), pa.int64(), pa.string()), pa.string(), GROUPED),
    OwnFunction(half_up, (pa.float64(), pa.int64()), pa.float64(), HALF_UP),
    OwnFunction(other_bases, (pa.string(), pa.int64(), pa.int64()), pa.string(), OTHER_BASE),
    OwnFunction(split_at_most, (pa.string(), pa.string(), pa.int64()), TEXTS, SPLIT_AT_MOST),
    OwnFunction(url_encoded, (pa.string(),), pa.string(), URL_ENCODED),
    OwnFunction(url_decoded, (pa.string(),), pa.string(), URL_DECODED),
    OwnFunction(url_parts, (pa.string(), pa.string(), pa.string()), pa.string(), URL_PART),
    OwnFunction(sha_1, (pa.string(),), pa.string(), SHA_1),
    OwnFunction(crc_32, (pa.string(),), pa.int64(), CRC_32),
)
