"""A lock that goes to who has waited longest: a plain one goes to who comes just then, often the one who had it."""

import threading
from collections import deque


class FairLock:
    """A lock served in order of arrival; not for a thread that has it already."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held = False
        self._waiting: deque[threading.Event] = deque()

    def __enter__(self) -> None:
        """Wait for it."""
        turn = threading.Event()
        with self._guard:
            if not self._held:
                self._held = True
                return
            self._waiting.append(turn)
        turn.wait()

    def __exit__(self, *_: object) -> None:
        """Hand it to the next."""
        with self._guard:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._held = False
