"""Background threads for work that can hang; callers choose how long they wait."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

Work = Callable[[], None]


class Background:
    """Daemon threads that run functions in order. Functions must handle their own errors.

    A thread pool of the standard library would keep the process alive while one of its threads hangs.
    """

    def __init__(self, name: str, threads: int = 1) -> None:
        self._waiting: deque[Work] = deque()
        self._running = 0
        self._closed = False
        self._changed = threading.Condition()
        for _ in range(threads):
            threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, work: Work) -> bool:
        """Queue a function; return whether it will run. After `close`, no function runs."""
        with self._changed:
            if self._closed:
                return False
            self._waiting.append(work)
            self._changed.notify_all()
            return True

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` until all functions have run; return whether they have."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._running, seconds)

    def close(self) -> None:
        """End each thread after its current function; queued functions do not run. Idempotent."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                work = self._waiting.popleft()
                self._running += 1
            try:
                work()
            finally:
                with self._changed:
                    self._running -= 1
                    self._changed.notify_all()
