"""Warnings at the line of the calling program, and errors without the traceback of this package."""

import sys
import warnings
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Final, ParamSpec, TypeVar

from flightllm.errors import FlightLLMError, InternalError

_SHOWN: Final = 3
"""The most notes that one warning shows."""
_P = ParamSpec("_P")
_T = TypeVar("_T")


def plain_errors(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a function whose errors have no cause and no traceback of this package; a defect keeps them."""

    @wraps(function)
    def called(*args: _P.args, **options: _P.kwargs) -> _T:
        try:
            return function(*args, **options)
        except InternalError:
            raise
        except FlightLLMError as error:
            raise error.with_traceback(None) from None

    return called


def warn(text: str) -> None:
    """Warn in one line, at the line of the program that called this package."""
    level, frame = 1, _caller()
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith("flightllm."):
        level, frame = level + 1, frame.f_back
    warnings.warn(" ".join(text.split()), stacklevel=level + 1)


def _caller() -> FrameType | None:
    return sys._getframe(2)  # noqa: SLF001 - the standard library's way to a caller


def warn_once(notes: list[str]) -> None:
    """Warn once about all notes on the opened files."""
    if len(notes) == 1:
        warn(notes[0])
    elif notes:
        more = f"; and {len(notes) - _SHOWN:,} more" if len(notes) > _SHOWN else ""
        warn(f"{len(notes):,} notes about the files: {'; '.join(notes[:_SHOWN])}{more}")
