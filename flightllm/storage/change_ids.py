"""The ids of new data files and of states of tables; a statement that can run twice marks its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import uuid4

_MARK: ContextVar[str] = ContextVar("mark", default="")


@contextmanager
def marked(mark: str) -> Iterator[None]:
    """Begin all new ids of this thread with a mark of hexadecimal digits, until the block ends.

    So a process that starts after a crash knows whether the statement of this mark has changed a table.
    """
    token = _MARK.set(mark)
    try:
        yield
    finally:
        _MARK.reset(token)


def new_id() -> str:
    """Return a new id of 32 hexadecimal digits."""
    mark = _MARK.get()
    return f"{mark}{uuid4().hex[len(mark) :]}"
