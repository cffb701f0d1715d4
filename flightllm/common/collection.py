"""Python's garbage collection while much is imported or opened."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Collect no garbage meanwhile, and never look again at what lives at the end.

    Imports make hundreds of thousands of objects that stay, and each collection would look at all of them: a tenth of
    the time to start. Does nothing inside itself, or where collection is off.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
