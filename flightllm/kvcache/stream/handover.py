"""Hand items from one thread to another, one at a time."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

_Item = TypeVar("_Item")


class Handover(Generic[_Item]):
    """A place for one item between a giver and a taker. The giver waits until its item is taken.

    | giver | taker |
    |---|---|
    | `open()`: items will come | `wait_open` returns True |
    | `give(a)` puts `a` there and waits | `wait_item` returns `a` |
    | | `taken()` empties the place |
    | returns True and can prepare `b` | uses `a` |

    Either thread can close it. Then `give` returns False at once.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._item: _Item | None = None
        self._is_open = False
        self._closed = False

    @property
    def closed(self) -> bool:
        """Return whether no more items can be given."""
        return self._closed

    def open(self) -> None:
        """Tell the taker that items will come."""
        with self._changed:
            self._is_open = True
            self._changed.notify_all()

    def give(self, item: _Item) -> bool:
        """Put an item into the place and wait until it is taken; return False if the handover is closed."""
        self.give_last(item)
        with self._changed:
            self._changed.wait_for(lambda: self._item is None or self._closed)
            return not self._closed

    def give_last(self, item: _Item) -> None:
        """Put the last item into the place, and do not wait."""
        with self._changed:
            self._is_open = True
            self._item = item
            self._changed.notify_all()

    def wait_open(self, seconds: float) -> bool:
        """Wait until items will come; False if that takes longer than `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_open, seconds)

    def wait_item(self, seconds: float) -> _Item | None:
        """Return the next item, and leave it in the place; return None if the wait takes longer than `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: self._item is not None, seconds)
            return self._item

    def taken(self) -> None:
        """Empty the place, so that the giver goes on."""
        with self._changed:
            self._item = None
            self._changed.notify_all()

    def close(self) -> None:
        """Let the giver stop. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
