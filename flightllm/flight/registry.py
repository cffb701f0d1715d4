"""Values that clients refer to by a handle, bounded in number and in age."""

import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from flightllm.errors import NotFoundError

_T = TypeVar("_T")


class Registry(Generic[_T]):
    """Values under unguessable handles, safe to use from several threads.

    A value that was not used for `seconds` is dropped. Beyond `size` values, the owner with the most values loses the
    least recently used one. `drop` is called with each dropped value, outside the lock.
    """

    def __init__(
        self,
        kind: str,
        size: int,
        seconds: float,
        drop: Callable[[_T], None] = lambda _: None,
        owner: Callable[[_T], str] = lambda _: "",
    ) -> None:
        self._kind = kind
        self._owner = owner
        self._size = size
        self._seconds = seconds
        self._drop = drop
        self._lock = threading.Lock()
        self._values: OrderedDict[bytes, tuple[float, _T]] = OrderedDict()

    def add(self, value: _T) -> bytes:
        """Keep `value` and return its handle."""
        handle = secrets.token_hex(16).encode()
        with self._lock:
            self._values[handle] = (time.monotonic(), value)
            old = self._overdue()
        for dropped in old:
            self._drop(dropped)
        return handle

    def get(self, handle: bytes) -> _T:
        """Return the value of `handle`.

        Raises:
            NotFoundError: the value was closed or dropped, or the handle is unknown.
        """
        with self._lock:
            found = self._values.pop(handle, None)
            if found is None:
                raise self.missing()
            self._values[handle] = (time.monotonic(), found[1])
            return found[1]

    def entries(self) -> list[tuple[bytes, float, _T]]:
        """Return the handles and values that are not too old, with the monotonic time of each last use."""
        with self._lock:
            old = self._overdue()
            found = [(handle, used, value) for handle, (used, value) in self._values.items()]
        for dropped in old:
            self._drop(dropped)
        return found

    def restore(self, entries: Iterable[tuple[bytes, float, _T]]) -> None:
        """Keep the entries of another registry, in their order."""
        with self._lock:
            self._values.update((handle, (used, value)) for handle, used, value in entries)

    def missing(self) -> NotFoundError:
        """Return the error for a handle without a value."""
        return NotFoundError(f"there is no such {self._kind}: it was closed, it expired, or the server restarted")

    def remove(self, handle: bytes) -> bool:
        """Drop the value of `handle`; return whether the handle had a value."""
        with self._lock:
            found = self._values.pop(handle, None)
        if found is not None:
            self._drop(found[1])
        return found is not None

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            values = [value for _, value in self._values.values()]
            self._values.clear()
        for value in values:
            self._drop(value)

    def _overdue(self) -> list[_T]:
        """Remove the values that are too many or too old; the oldest are first."""
        old: list[_T] = []
        horizon = time.monotonic() - self._seconds
        while self._values and next(iter(self._values.values()))[0] < horizon:
            old.append(self._values.popitem(last=False)[1][1])
        while len(self._values) > self._size:
            owners = {handle: self._owner(value) for handle, (_, value) in self._values.items()}
            [(most, _)] = Counter(owners.values()).most_common(1)
            handle = next(handle for handle, owner in owners.items() if owner == most)
            old.append(self._values.pop(handle)[1])
        return old
