"""Threads that do work which may hang, and that nobody waits for longer than they want to."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

Work = Callable[[], None]


class Background:
    """Runs functions, in order, on threads that end with the process. Functions see to their own errors.

    A pool of the standard library would keep the process from ending while one of its threads hangs.
    """

    def __init__(self, name: str, threads: int = 1) -> None:
        self._waiting: deque[Work] = deque()
        self._running = 0
        self._closed = False
        self._changed = threading.Condition()
        for _ in range(threads):
            threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, work: Work) -> bool:
        """Have a function run; return whether it will be: not after `close`."""
        with self._changed:
            if self._closed:
                return False
            self._waiting.append(work)
            self._changed.notify_all()
            return True

    def wait(self, seconds: float) -> bool:
        """Wait until everything was run, so long at most; return whether it was."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._running, seconds)

    def close(self) -> None:
        """End the threads, each after what it is doing; what waits is not run. Idempotent."""
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
