"""The rows that wait for their clients: bounded for each stream, and for all streams together."""

import queue
import threading
from collections import deque
from typing import Generic, TypeVar

from flightllm.common.fair_queue import HeldCounts, Requester

_T = TypeVar("_T")
_STREAM_BYTES = 4 << 20
"""The most bytes that one stream computes ahead of its client, besides its first item."""
_AHEAD = 8
"""The most items that one stream computes ahead: small batches have a cost besides their bytes."""
_ALL_BYTES = 128 << 20
"""The most bytes that all streams compute ahead. Users share them: each gets the same part."""


class StreamBytes:
    """The bytes in memory for all streams, or for all uploads, by user. Thread-safe."""

    def __init__(self, most: int = _ALL_BYTES) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._held = HeldCounts()

    def has_room(self, asker: Requester, size: int) -> bool:
        """Return whether a user can add `size` bytes to the bytes that already wait in a stream."""
        with self._lock:
            own = self._held.of_user(asker.user)
            users = self._held.users + (not own)
            return own + size <= self._most // users

    def part_of(self, asker: Requester) -> int:
        """Return a user's part of all bytes now."""
        with self._lock:
            return self._most // (self._held.users + (not self._held.of_user(asker.user)))

    def add(self, asker: Requester, size: int) -> None:
        """Count bytes; a negative `size` if they have gone."""
        with self._lock:
            self._held.add(asker, size)

    @property
    def users(self) -> int:
        """Return the number of users for whom bytes wait."""
        with self._lock:
            return self._held.users


class Buffer(Generic[_T]):
    """A queue between the thread that computes rows and the thread that sends them, bounded by bytes.

    It always takes an item if it is empty, whatever the item's size.
    """

    def __init__(self, asker: Requester, all_streams: StreamBytes) -> None:
        self._asker = asker
        self._all = all_streams
        self._items: deque[tuple[_T, int]] = deque()
        self._bytes = 0
        self._closed = False
        self._changed = threading.Condition()

    def put(self, item: _T, size: int, timeout: float) -> bool:
        """Add an item of `size` bytes; return False if there is no room within `timeout` seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._has_room(size), timeout):
                return False
            if not self._closed:
                self._items.append((item, size))
                self._bytes += size
                self._all.add(self._asker, size)
            self._changed.notify_all()
            return True

    def get(self, timeout: float = 0.0) -> _T:
        """Remove and return the first item.

        Raises:
            queue.Empty: there is no item within `timeout` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._items, timeout):
                raise queue.Empty
            item, size = self._items.popleft()
            self._bytes -= size
            self._all.add(self._asker, -size)
            self._changed.notify_all()
            return item

    def empty(self) -> bool:
        """Return whether no item waits."""
        with self._changed:
            return not self._items

    def close(self) -> None:
        """Drop all items, and those that come later. Idempotent."""
        with self._changed:
            self._closed = True
            self._all.add(self._asker, -self._bytes)
            self._items.clear()
            self._bytes = 0
            self._changed.notify_all()

    def _has_room(self, size: int) -> bool:
        if self._closed or not self._items:
            return True
        if len(self._items) >= _AHEAD:
            return False
        return self._bytes + size <= _STREAM_BYTES and self._all.has_room(self._asker, size)
