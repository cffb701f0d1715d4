"""The values that clients bound to prepared statements: how much of memory they take together."""

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
    """How many bytes are kept for which prepared statement, `most` of them together. Thread-safe.

    Whoever has most of them makes room.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        """By the statement's identity; values bound longest ago first."""

    def bind(self, handle: bytes, prepared: Prepared, values: pa.Table | None) -> list[bytes]:
        """Give a statement its values; return the handles of those to drop, so that there is room for them.

        Raises:
            BusyError: there is none, because others keep theirs who have less.
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
        """Take out what there is no room for beside new values, the oldest of who has most; return the handles."""
        sizes = Counter({new.user: new.size})
        for other in kept.values():
            sizes[other.user] += other.size
        dropped: list[bytes] = []
        while kept and sizes.total() > self._most:
            user = max(sizes, key=lambda user: (sizes[user], user == new.user))
            oldest = next((key for key, other in kept.items() if other.user == user), None)
            if oldest is None:
                found = (
                    f"the values have {new.size:,} bytes, and others keep {sizes.total() - new.size:,} bytes of theirs"
                )
                raise busy("upload_bytes", self._most, found)
            sizes[user] -= kept[oldest].size
            dropped.append(kept.pop(oldest).handle)
        return dropped

    def forget(self, prepared: Prepared) -> None:
        """Count a statement's values no longer. Idempotent."""
        with self._lock:
            self._kept.pop(id(prepared), None)
