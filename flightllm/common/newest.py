"""A bounded dictionary."""

from collections import OrderedDict
from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class Newest(OrderedDict[_K, _V]):
    """A dictionary of the `most` entries that were set last, the oldest first. Not thread-safe.

    Setting a key again makes it newest, and so does `use`. Other ways of reading leave the order as it is.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: _K, value: _V) -> None:
        """Set an entry as the newest one; drop the oldest one if there are too many."""
        self.pop(key, None)
        super().__setitem__(key, value)
        if len(self) > self._most:
            self.popitem(last=False)

    def use(self, key: _K) -> _V | None:
        """Return the value of a key and make the entry the newest one.

        Return None for an unknown key, also if another thread removes the entry meanwhile. A value of None looks the
        same, so use `in` if values can be None.
        """
        try:
            self.move_to_end(key)
            return self[key]
        except KeyError:
            return None
