"""Run the recursive parser on a thread whose stack is large enough for a deep text."""

import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

_Result = TypeVar("_Result")
_BYTES_PER_LEVEL: Final = 16 << 10
"""The bytes of one level: several times as many as the parser, the printer and the release of a tree take."""
_SMALLEST: Final = 8 << 20
_HOLDERS: Final = frozenset({dict, list, tuple})
_PAGE: Final = 64 << 10
_starting: Final = threading.Lock()
"""Held while a thread starts: the size of a stack is a setting of the whole process."""


def on_large_stack(levels: int, run: Callable[[], _Result]) -> _Result:
    """Return the result of a function that recurses so many levels deep in native code.

    The function has no context of the statement. It must take no lock that its caller holds.

    Raises:
        BaseException: what the function raises.
    """
    result = list[_Result]()
    raised = list[BaseException]()

    def work() -> None:
        try:
            result.append(run())
        except BaseException as error:  # noqa: BLE001 - the caller's thread raises it again
            raised.append(error)

    size = max(_SMALLEST, levels * _BYTES_PER_LEVEL)
    thread = threading.Thread(target=work, name="deep-text")
    with _starting:
        before = threading.stack_size(-(-size // _PAGE) * _PAGE)
        try:
            thread.start()
        finally:
            threading.stack_size(before)
    thread.join()
    if raised:
        raise raised[0]
    return result[0]


def levels(value: Any) -> int:
    """Return how deep the dicts, lists and tuples of a value are nested."""
    count, level = 0, [value] if type(value) in _HOLDERS else []
    while level:
        count += 1
        level = [
            part
            for one in level
            for part in (one.values() if type(one) is dict else one)
            if part and type(part) in _HOLDERS
        ]
    return count
