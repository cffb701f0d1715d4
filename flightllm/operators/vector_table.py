"""Vectors of numbered units: a matrix in memory, or a file if it is large."""

import mmap
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from flightllm.operators.population import Units
from flightllm.operators.runtime import SpoolLimits

_MOST_IN_MEMORY: Final = 64 << 20
_ROWS_AT_ONCE: Final = 65_536


class VectorTable:
    """One vector for each unit; NaN for a missing one. One thread uses it.

    A large table is a file of half-precision numbers in `folder`, which the caller removes.
    """

    def __init__(self, units: int, folder: Path, room: SpoolLimits) -> None:
        self._units = units
        self._folder = folder
        self._room = room
        self._matrix: NDArray[np.float32] | NDArray[np.float16] | None = None
        self._file: mmap.mmap | None = None

    def __len__(self) -> int:
        """Return the number of units."""
        return self._units

    def write(self, unit: int, vector: NDArray[np.float32]) -> None:
        """Store the vector of a unit. All vectors must have the same length.

        Raises:
            LimitExceededError: the query has no room on disk.
        """
        if self._matrix is None:
            self._matrix = self._allocated(len(vector))
        self._matrix[unit] = vector

    def read(self, units: Units) -> NDArray[np.float32]:
        """Return the vectors of some units, as a matrix."""
        if self._matrix is None:
            return np.full((len(units), 1), np.nan, np.float32)
        found = np.asarray(self._matrix[units], np.float32)
        self.release()
        return found

    def release(self) -> None:
        """Give back the memory that the system holds for the file."""
        if self._file is not None:
            self._file.flush()
            self._file.madvise(mmap.MADV_DONTNEED)

    def _allocated(self, dimensions: int) -> NDArray[np.float32] | NDArray[np.float16]:
        if self._units * dimensions * 4 <= _MOST_IN_MEMORY:
            return np.full((self._units, dimensions), np.nan, np.float32)
        size = self._units * dimensions * 2
        self._room.take(size)
        with (self._folder / f"vectors-{id(self)}").open("x+b") as file:
            missing = np.full((min(_ROWS_AT_ONCE, self._units), dimensions), np.nan, np.float16)
            for start in range(0, self._units, _ROWS_AT_ONCE):
                file.write(missing[: self._units - start].data)
            file.flush()
            self._file = mmap.mmap(file.fileno(), size)
        return np.frombuffer(self._file, np.float16).reshape(self._units, dimensions)
