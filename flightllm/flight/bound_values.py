"""The values that clients bound to prepared statements: how much of memory they take together."""

import threading
from collections import OrderedDict

import pyarrow as pa

from flightllm.flight.statements import Prepared


class BoundValues:
    """How many bytes are kept for which prepared statement, `most` of them together. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._bytes = 0
        self._kept: OrderedDict[int, tuple[bytes, int]] = OrderedDict()
        """Handle and size by the statement's identity; values bound longest ago first."""

    def bind(self, handle: bytes, prepared: Prepared, values: pa.Table | None) -> list[bytes]:
        """Give a statement its values; return the handles of those to drop, so that there is room for them."""
        self.forget(prepared)
        prepared.parameters = values
        if values is None:
            return []
        dropped = list[bytes]()
        with self._lock:
            size = values.get_total_buffer_size()
            self._kept[id(prepared)] = (handle, size)
            self._bytes += size
            while self._bytes > self._most and len(self._kept) > 1:
                other, size = self._kept.popitem(last=False)[1]
                self._bytes -= size
                dropped.append(other)
        return dropped

    def forget(self, prepared: Prepared) -> None:
        """Count a statement's values no longer. Idempotent."""
        with self._lock:
            self._bytes -= self._kept.pop(id(prepared), (b"", 0))[1]
