"""Who still reads what has been replaced: folders go once the last one who may read them has ended."""

import shutil
import threading
from pathlib import Path
from types import TracebackType
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

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


class Readers:
    """All readers, and the folders that are to go once those opened before have ended. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a reader may be forgotten, and so close, at any moment
        self._next = 0
        self._open: set[int] = set()
        self._retired: dict[Path, int] = {}
        """With the number of the first reader that cannot know the folder any more."""

    def open(self) -> Reader:
        """Return a new reader."""
        with self._lock:
            self._next += 1
            self._open.add(self._next)
            return Reader(self, self._next)

    def retire(self, folder: Path) -> None:
        """Remove a folder once no reader opened so far is left."""
        with self._lock:
            self._retired[folder] = self._next + 1
        self._sweep()

    def ended(self, number: int) -> None:
        """Forget a reader, and remove what only it could read."""
        with self._lock:
            if number not in self._open:
                return
            self._open.discard(number)
        self._sweep()

    def _sweep(self) -> None:
        with self._lock:
            first = min(self._open, default=self._next + 1)
            gone = [folder for folder, number in list(self._retired.items()) if number <= first]
            for folder in gone:
                self._retired.pop(folder, None)
        for folder in gone:
            shutil.rmtree(folder, ignore_errors=True)
