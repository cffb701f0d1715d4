"""Reading of files, compressed or not."""

import lzma
from pathlib import Path
from typing import IO

import pyarrow as pa

COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".xz": "xz"}


def ending(path: Path) -> str:
    """Return the extension of a file's name in lower case, without the extension of its compression."""
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    return plain.suffix.lower()


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file; reading returns decompressed bytes.

    Raises:
        OSError: the file cannot be read. Reading a damaged file raises OSError, EOFError or LZMAError.
    """
    kind = COMPRESSIONS.get(path.suffix.lower())
    if kind is None:
        return path.open("rb")
    if kind == "xz":
        return lzma.open(path, "rb")
    stream: IO[bytes] = pa.input_stream(str(path), compression=kind)
    return stream
