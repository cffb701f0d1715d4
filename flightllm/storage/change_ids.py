"""The ids of new data files and of states of tables; and the mark of a statement that can run twice."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import uuid4

_MARK: ContextVar[str] = ContextVar("mark", default="")


@contextmanager
def marked(mark: str) -> Iterator[None]:
    """Note a mark in the catalog with each change of this thread, until the block ends.

    So a process that starts after a crash knows whether the statement of this mark has changed a table.
    """
    token = _MARK.set(mark)
    try:
        yield
    finally:
        _MARK.reset(token)


def current_mark() -> str:
    """Return the mark of this thread's statement, or an empty text."""
    return _MARK.get()


def new_id() -> str:
    """Return a new id of 32 hexadecimal digits."""
    return uuid4().hex
