"""Digests of data files: SHA-256, taken from the bytes as they are written. `sha256sum FILE` prints the same digits."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

_PIECE_BYTES = 1 << 20


class DigestFile:
    """A new file that pyarrow writes from its start to its end. It never reads, so it needs no second pass.

    A digest of the file as read later would hide what the disk or the memory in between did to it.
    """

    closed = False
    """pyarrow asks for it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=0)
        self._hash = hashlib.sha256()

    def write(self, content: bytes) -> int:
        """Write all bytes.

        Raises:
            OSError: the disk is full, or it fails.
        """
        self._hash.update(content)
        left = memoryview(content)
        while left:
            left = left[self._file.write(left) :]
        return len(content)

    def tell(self) -> int:
        """Return the number of bytes so far."""
        return self._file.tell()

    def flush(self) -> None:
        """Do nothing: no bytes wait here."""

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._file.close()
        self.closed = True

    def sink(self) -> pa.NativeFile:
        """Return the file as a pyarrow sink. Arrow writes many small pieces, so that a buffer saves Python's time."""
        return pa.BufferedOutputStream(pa.PythonFile(self, "w"), _PIECE_BYTES)

    @property
    def digest(self) -> str:
        """Return the digest of the bytes so far, in hexadecimal."""
        return self._hash.hexdigest()


def digest_of(path: Path, rest: Callable[[float], None] = lambda _: None) -> str:
    """Return the digest of a file; `rest` is called after each piece with the seconds that the piece took.

    Raises:
        OSError: the file cannot be read.
    """
    # The pages stay in the system's cache. POSIX_FADV_DONTNEED would also drop those that statements use, such as all
    # that a run before a restart left there. The system itself first drops pages that were read once.
    found, piece = hashlib.sha256(), memoryview(bytearray(_PIECE_BYTES))
    with path.open("rb", buffering=0) as file:
        begun = time.monotonic()
        while size := file.readinto(piece):
            found.update(piece[:size])
            rest(time.monotonic() - begun)
            begun = time.monotonic()
    return found.hexdigest()


def index_digest_of(path: Path) -> str:
    """Return the digest of a file of a vector index, as the manifest of the index has it.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32]
