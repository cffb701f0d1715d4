"""One tool call at work: its statements, their progress, and its end."""

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from flightllm.client import Client, Progress
from flightllm.errors import CancelledError, FlightLLMError
from flightllm.mcp.limits import Limits

_STOP_SECONDS = 30.0
_LOOK_SECONDS = 0.1


class Work:
    """The client and the limits of one tool call. One thread runs the statements; other threads can stop them."""

    def __init__(self, client: Client, limits: Limits) -> None:
        self.limits = limits
        self._client = client
        self._current: Client | None = None
        self._stopped = threading.Event()
        self._ended = threading.Event()

    def client(self, cost: float | None = None, calls: int | None = None, *, priced: bool = True) -> Client:
        """Return a client for the next statement; the arguments are those of `Limits.headers`.

        Raises:
            CancelledError: the call was cancelled.
        """
        self.check_wanted()
        self._current = self._client.beside(self.limits.headers(cost, calls, priced=priced))
        return self._current

    def has_prices(self) -> bool:
        """Return whether any model that the caller can use has a price.

        Raises:
            FlightLLMError: the server does not answer.
        """
        self.check_wanted()
        return self._client.has_prices()

    def rows(self, sql: str) -> list[Mapping[str, Any]]:
        """Return the rows of a small query, or of EXPLAIN or DESCRIBE, which cannot ask a model.

        Raises:
            FlightLLMError: the query fails.
        """
        _, batches = self.client(calls=0).query(sql)
        return [row for batch in batches for row in batch.to_pylist()]

    def check_wanted(self) -> None:
        """Raise `CancelledError` if the call was cancelled."""
        if self._stopped.is_set():
            raise CancelledError("the call was cancelled")

    def progress(self) -> Progress | None:
        """Return the progress of the present statement; None before the first one, and where it is unknown."""
        current = self._current
        return None if current is None else current.progress()

    def end(self) -> None:
        """Note that the tool has ended."""
        self._ended.set()

    def stop(self) -> None:
        """Stop the present statement and allow no further ones; wait for the end of the tool.

        A statement that has just been sent is not known yet, so the method tries until the tool ends.
        """
        self._stopped.set()
        for _ in range(int(_STOP_SECONDS / _LOOK_SECONDS)):
            current = self._current
            if current is not None:
                with suppress(FlightLLMError):  # it has ended, or the server is gone
                    current.stop()
            if self._ended.wait(_LOOK_SECONDS):
                return
