"""Bytes of files, compressed or not."""

import lzma
from pathlib import Path
from typing import IO

import pyarrow as pa

COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".xz": "xz"}


def ending(path: Path) -> str:
    """Return how a file's name ends, in lower case, without the part that says how it is compressed."""
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    return plain.suffix.lower()


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file; reading returns its bytes as they were before compression.

    Raises:
        OSError: it cannot be read. Reading raises OSError, EOFError or LZMAError where it is cut short or damaged.
    """
    kind = COMPRESSIONS.get(path.suffix.lower())
    if kind is None:
        return path.open("rb")
    if kind == "xz":
        return lzma.open(path, "rb")
    stream: IO[bytes] = pa.input_stream(str(path), compression=kind)
    return stream
