"""One bitstream on its way from a store, for all who wait for it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from flightllm.errors import BitstreamError
from flightllm.kvcache.stream.meter import Meter


class Transfer:
    """Takes the parts of a bitstream in a thread of its own, until they end or nobody waits for them any more.

    Safe to use from several threads.
    """

    def __init__(
        self, get: Callable[[], Iterator[memoryview]], size: int, meter: Meter, ended: Callable[["Transfer"], None]
    ) -> None:
        """Begin. The bitstream has `size` bytes; `ended` is called once no more come."""
        self._get = get
        self._size = size
        self._meter = meter
        self._ended = ended
        self._lock = threading.Lock()
        self._waiting = 1
        self._parts: Any = None
        self._data = bytearray()
        self._error: Exception | None = None
        self._done = threading.Event()
        threading.Thread(target=self._run, name="kv-transfer", daemon=True).start()

    @property
    def received(self) -> int:
        """Return how many bytes have come."""
        return len(self._data)

    def join(self) -> bool:
        """Wait for it too; False where it was given up already."""
        with self._lock:
            if self._waiting:
                self._waiting += 1
            return self._waiting > 0

    def leave(self) -> None:
        """Wait for it no longer; the last one who does so ends it."""
        with self._lock:
            self._waiting -= 1
            left = not self._waiting
        if left and self._parts is not None:
            with suppress(ValueError):  # a generator at work cannot be closed; it is closed after its next part
                _close(self._parts)

    def wait(self, seconds: float) -> bool:
        """Wait for a while, and tell whether it has ended."""
        return self._done.wait(seconds)

    def result(self) -> memoryview:
        """Return the bitstream of a transfer that has ended, which others may be reading too.

        Raises:
            BitstreamError: it is longer or shorter than it was said to be.
            Exception: whatever the store raised.
        """
        if self._error is not None:
            raise self._error
        if len(self._data) != self._size:
            raise BitstreamError(f"a KV chunk of {self._size} bytes came as {len(self._data)} or more")
        return memoryview(self._data).toreadonly()

    def _run(self) -> None:
        number = self._meter.begin(time.monotonic())
        try:
            self._parts = self._get()
            for part in self._parts:
                self._meter.part(number, len(part), time.monotonic())
                if not self._waiting or len(self._data) + len(part) > self._size:
                    break
                self._data += part
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error
        finally:
            self._meter.end(number, time.monotonic())
            self._ended(self)
            self._done.set()
            with suppress(Exception):  # whatever a store says at a transfer's end, its bytes are there
                _close(self._parts)


def _close(parts: Any) -> None:
    """End an iterator's transfer, if it is of a kind that can be."""
    close = getattr(parts, "close", None)
    if close is not None:
        close()
