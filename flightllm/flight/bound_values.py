"""The memory of the values that clients bound to prepared statements."""

import threading
from collections import Counter, OrderedDict
from typing import NamedTuple

import pyarrow as pa

from flightllm.common.limits import busy
from flightllm.flight.statements import Prepared


class _Kept(NamedTuple):
    handle: bytes
    user: str
    size: int


class BoundValues:
    """The bytes of the values of each prepared statement, together at most `most`. Thread-safe.

    If there is no room, the user with the most bytes loses values.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        """Values by the statement's identity; the values bound longest ago are first."""

    def bind(self, handle: bytes, prepared: Prepared, values: pa.Table | None) -> list[bytes]:
        """Give a statement its values; return the handles of the statements to drop to make room.

        Raises:
            BusyError: there is no room, because the other users have fewer bytes.
        """
        with self._lock:
            others = OrderedDict(self._kept)
            others.pop(id(prepared), None)
            dropped: list[bytes] = []
            if values is not None:
                new = _Kept(handle, prepared.session.principal.name, values.get_total_buffer_size())
                dropped = self._without_most(others, new)
                others[id(prepared)] = new
            prepared.parameters = values
            self._kept = others
            return dropped

    def _without_most(self, kept: OrderedDict[int, _Kept], new: _Kept) -> list[bytes]:
        """Remove values until `new` fits, the oldest of the user with the most bytes first; return their handles."""
        sizes = Counter({new.user: new.size})
        for other in kept.values():
            sizes[other.user] += other.size
        dropped: list[bytes] = []
        while kept and sizes.total() > self._most:
            user = max(sizes, key=lambda user: (sizes[user], user == new.user))
            oldest = next((key for key, other in kept.items() if other.user == user), None)
            if oldest is None:
                found = f"the values have {new.size:,} bytes, and other users hold {sizes.total() - new.size:,} bytes"
                raise busy("upload_bytes", self._most, found)
            sizes[user] -= kept[oldest].size
            dropped.append(kept.pop(oldest).handle)
        return dropped

    @property
    def size(self) -> int:
        """Return the bytes of all values."""
        with self._lock:
            return sum(one.size for one in self._kept.values())

    def forget(self, prepared: Prepared) -> None:
        """Stop counting a statement's values. Idempotent."""
        with self._lock:
            self._kept.pop(id(prepared), None)
