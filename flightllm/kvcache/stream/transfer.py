"""The transfer of one bitstream from a store, shared by all requests that wait for it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from flightllm.errors import BitstreamError
from flightllm.kvcache.stream.meter import Meter


class Transfer:
    """A thread that receives the parts of a bitstream, until the end or until no request waits for it. Thread-safe."""

    def __init__(
        self, get: Callable[[], Iterator[memoryview]], size: int, meter: Meter, ended: Callable[["Transfer"], None]
    ) -> None:
        """Start the transfer. The bitstream has `size` bytes; `ended` is called at the end of the transfer."""
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
        """Return the number of received bytes."""
        return len(self._data)

    @property
    def is_wanted(self) -> bool:
        """Return whether a request waits for the transfer."""
        return self._waiting > 0

    def join(self) -> bool:
        """Add a waiting request; return False if the transfer was already cancelled."""
        with self._lock:
            if self._waiting:
                self._waiting += 1
            return self._waiting > 0

    def leave(self) -> None:
        """Remove a waiting request; the last one to leave cancels the transfer."""
        with self._lock:
            self._waiting -= 1
            left = not self._waiting
        if left and self._parts is not None:
            with suppress(ValueError):  # a running generator cannot be closed; it is closed after its next part
                _close(self._parts)

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds`; return whether the transfer has ended."""
        return self._done.wait(seconds)

    def result(self) -> memoryview:
        """Return the bitstream of an ended transfer; several requests can read it.

        Raises:
            BitstreamError: the bitstream is longer or shorter than `size`.
            Exception: the error that the store raised.
        """
        if self._error is not None:
            raise self._error
        if len(self._data) != self._size:
            raise BitstreamError(
                f"a KV chunk was announced with {self._size} bytes and came with {len(self._data)} or more"
            )
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
        except Exception as error:  # noqa: BLE001 - raised again in the requests that wait
            self._error = error
        finally:
            self._meter.end(number, time.monotonic())
            self._ended(self)
            self._done.set()
            with suppress(Exception):  # all bytes are received, so an error at the end does not matter
                _close(self._parts)


def _close(parts: Any) -> None:
    """Close an iterator, if it can be closed, which ends its transfer."""
    close = getattr(parts, "close", None)
    if close is not None:
        close()
