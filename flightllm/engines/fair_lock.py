"""A lock that serves threads in order of arrival; a plain lock often goes back to the thread that released it."""

import threading
from collections import deque


class FairLock:
    """A lock that serves threads in order of arrival; not reentrant."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held = False
        self._waiting: deque[threading.Event] = deque()

    def __enter__(self) -> None:
        """Wait for the lock."""
        turn = threading.Event()
        with self._guard:
            if not self._held:
                self._held = True
                return
            self._waiting.append(turn)
        turn.wait()

    def __exit__(self, *_: object) -> None:
        """Pass the lock to the next thread."""
        with self._guard:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._held = False
