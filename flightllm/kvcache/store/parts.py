"""The file of one bitstream, and the checksums of its parts; each part can be checked before the next is read."""

from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Final

from flightllm.errors import InvalidInputError
from flightllm.kvcache.store.names import PART_BYTES

CHECK_BYTES: Final = 16


class _Checksums:
    """Computes the checksums of a bitstream's parts of 1 MiB (the last can be shorter) from pieces of any size."""

    def __init__(self) -> None:
        self.whole = b""
        self._part, self._filled = blake2b(digest_size=CHECK_BYTES), 0

    def add(self, piece: memoryview) -> None:
        """Add the next bytes."""
        while piece:
            taken, piece = piece[: PART_BYTES - self._filled], piece[PART_BYTES - self._filled :]
            self._part.update(taken)
            self._filled += len(taken)
            if self._filled == PART_BYTES:
                self.end()

    def end(self) -> None:
        """End the current part."""
        if self._filled:
            self.whole += self._part.digest()
            self._part, self._filled = blake2b(digest_size=CHECK_BYTES), 0


def write(path: Path, size: int, parts: Iterable[memoryview]) -> bytes:
    """Write a bitstream, and return its checksums.

    Raises:
        InvalidInputError: the bitstream does not have `size` bytes.
    """
    path.parent.mkdir(exist_ok=True)
    written, checksums = 0, _Checksums()
    with path.open("xb") as file:
        for part in parts:
            written += len(part)
            if written > size:
                break
            file.write(part)
            checksums.add(part)
    if written != size:
        raise InvalidInputError(
            f"a KV chunk was announced with {size:,} bytes and came with {written:,}: it is not kept"
        )
    checksums.end()
    return checksums.whole


def checksum(part: bytes) -> bytes:
    """Return the checksum of a part."""
    return blake2b(part, digest_size=CHECK_BYTES).digest()
