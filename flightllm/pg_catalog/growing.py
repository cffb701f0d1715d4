"""PostgreSQL's functions that make texts longer, with limits: the engine does not count the memory of its own."""

from collections.abc import Callable, Mapping
from typing import Final

from flightllm.errors import LimitExceededError
from flightllm.pg_catalog.functions import Function

_MOST: Final = 65_536
"""The longest text that a function makes, in characters. The engine works on up to 2,048 such texts at once."""
_PARTS: Final = 1000
_GROUP: Final = "\\"


def _check(length: int) -> None:
    if length > _MOST:
        raise LimitExceededError(
            f"a query about the catalog makes a text of more than {_MOST:,} characters: make shorter texts"
        )


def _repeat(text: str, times: int) -> str:
    _check(len(text) * times)
    return text * times


def _padding(text: str, length: int, filling: str | None) -> str:
    _check(length)
    filling, missing = " " if filling is None else filling, max(length - len(text), 0)
    return (filling * (missing // len(filling) + 1))[:missing] if filling else ""


def _lpad(text: str, length: int, filling: str | None) -> str:
    return (_padding(text, length, filling) + text)[: max(length, 0)]


def _rpad(text: str, length: int, filling: str | None) -> str:
    return (text + _padding(text, length, filling))[: max(length, 0)]


def _replace(text: str, old: str, new: str) -> str:
    if not old:
        return text
    _check(len(text) + text.count(old) * (len(new) - len(old)))
    return text.replace(old, new)


def _plus(left: str, right: str) -> str:
    _check(len(left) + len(right))
    return left + right


def _add_part(separator: str, left: str | None, right: str | None) -> str | None:
    if left is None or right is None:
        return left if right is None else right
    _check(len(left) + len(separator) + len(right))
    return left + separator + right


def _replaceable(text: str, new: str) -> str:
    """Return the text, in which each match of a pattern can become `new`; a group of the match can be in `new`."""
    _check(len(text) * (1 + new.count(_GROUP)) + (len(text) + 1) * len(new))
    return text


def _separator(text: str) -> str:
    """Return the text, which separates the elements of a list."""
    _check(len(text) * _PARTS)
    return text


def _texts(count: int, call: Callable[..., object], *, strict: bool = True) -> Function:
    return Function(("text",) * count, "text", call, count, strict)


GROWING: Final[Mapping[str, Function]] = {
    "repeat": Function(("text", "int"), "text", _repeat, 2),
    "lpad": Function(("text", "int", "text"), "text", _lpad, 2),
    "rpad": Function(("text", "int", "text"), "text", _rpad, 2),
    "replace": _texts(3, _replace),
}
"""The functions that have the same name in PostgreSQL."""
HELPERS: Final[Mapping[str, Function]] = {
    "text_plus": _texts(2, _plus),
    "text_part": _texts(3, _add_part, strict=False),
    "text_replaceable": _texts(2, _replaceable),
    "text_separator": _texts(1, _separator),
}
"""The translator writes these for `||` and `concat_ws`, and inside `regexp_replace` and `array_to_string`."""
