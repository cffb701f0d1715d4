"""Threads that do work which may hang, and that nobody waits for longer than they want to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Full, Queue

Work = Callable[[], None]


class Background:
    """Runs functions, in order, on threads that end with the process. Functions see to their own errors.

    A pool of the standard library would keep the process from ending while one of its threads hangs.
    """

    def __init__(self, name: str, threads: int = 1, most: int = 0) -> None:
        self._queue: Queue[Work] = Queue(most)
        self._undone = 0
        self._changed = threading.Condition()
        for _ in range(threads):
            threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, work: Work) -> bool:
        """Have a function run; return whether it will be: not where `most` wait already."""
        with self._changed:
            self._undone += 1
        try:
            self._queue.put_nowait(work)
        except Full:
            self._ended()
            return False
        return True

    @property
    def full(self) -> bool:
        """Tell whether `most` functions wait."""
        return self._queue.full()

    def wait(self, seconds: float) -> bool:
        """Wait until everything was run, so long at most; return whether it was."""
        with self._changed:
            return self._changed.wait_for(lambda: self._undone == 0, seconds)

    def _run(self) -> None:
        while True:
            work = self._queue.get()
            try:
                work()
            finally:
                self._ended()

    def _ended(self) -> None:
        with self._changed:
            self._undone -= 1
            self._changed.notify_all()
