"""Who still reads what has been replaced: folders go once the last one who may read them has ended."""

import shutil
import threading
from collections import OrderedDict, deque
from pathlib import Path
from typing import Self


class Reader:
    """Somebody who may read any table as it was since the reader was opened. Closed at the latest when forgotten."""

    def __init__(self, readers: "Readers", number: int) -> None:
        self._readers = readers
        self._number = number

    def close(self) -> None:
        """Say that nothing is read any more. Idempotent."""
        self._readers.ended(self._number)

    __del__ = close

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()


class Readers:
    """All readers, and the folders that are to go once those opened before have ended. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0
        self._open: OrderedDict[int, None] = OrderedDict()
        """The numbers of the open readers, ascending."""
        self._retired: deque[tuple[Path, int]] = deque()
        """With the number of the first reader that cannot know the folder any more, ascending too."""
        self._ended: deque[int] = deque()
        """Numbers to take out of the open ones; 0 stands for none."""

    def open(self) -> Reader:
        """Return a new reader."""
        with self._lock:
            self._next += 1
            number = self._next
            self._open[number] = None
        self._sweep()
        return Reader(self, number)

    def retire(self, folder: Path) -> None:
        """Remove a folder once no reader opened so far is left."""
        with self._lock:
            self._retired.append((folder, self._next + 1))
        self.ended(0)

    def ended(self, number: int) -> None:
        """Forget a reader, and remove what only it could read.

        A reader may be forgotten at any moment, while its thread holds the lock too: then whoever holds it does this.
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
