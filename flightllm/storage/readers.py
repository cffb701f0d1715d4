"""Tracks readers of replaced files: a folder is removed once the last reader that can need it has closed."""

import shutil
import threading
from collections import OrderedDict, deque
from pathlib import Path
from typing import Self


class Reader:
    """A token that keeps all folders readable that existed when it was opened. Closes itself when garbage-collected."""

    def __init__(self, readers: "Readers", number: int) -> None:
        self._readers = readers
        self._number = number

    def close(self) -> None:
        """End the reading. Idempotent."""
        self._readers.ended(self._number)

    __del__ = close

    def __enter__(self) -> Self:
        """Return this reader."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the reader."""
        self.close()


class Readers:
    """All open readers, and the retired folders that wait for older readers to close. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0
        self._open: OrderedDict[int, None] = OrderedDict()
        """The numbers of the open readers, ascending."""
        self._retired: deque[tuple[Path, int]] = deque()
        """Each folder, with the number of the first reader that cannot need it; ascending."""
        self._ended: deque[int] = deque()
        """Numbers of closed readers to remove from the open ones; 0 stands for no reader."""

    def open(self) -> Reader:
        """Return a new reader."""
        with self._lock:
            self._next += 1
            number = self._next
            self._open[number] = None
        self._sweep()
        return Reader(self, number)

    def retire(self, folder: Path) -> None:
        """Remove a folder once all readers that are open now have closed."""
        with self._lock:
            self._retired.append((folder, self._next + 1))
        self.ended(0)

    def ended(self, number: int) -> None:
        """Close a reader, and remove the folders that only it needed.

        Garbage collection can close a reader at any moment, also in a thread that holds the lock. So this never waits
        for
        the lock: the thread that holds it then does the work.
        """
        self._ended.append(number)
        self._sweep()

    def _sweep(self) -> None:
        gone = list[Path]()
        while self._ended and self._lock.acquire(blocking=False):
            try:
                while self._ended:
                    self._open.pop(self._ended.popleft(), None)
                first = next(iter(self._open), self._next + 1)
                while self._retired and self._retired[0][1] <= first:
                    gone.append(self._retired.popleft()[0])
            finally:
                self._lock.release()
        for folder in gone:
            shutil.rmtree(folder, ignore_errors=True)
