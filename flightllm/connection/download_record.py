"""The record beside a downloaded file, by which a server that starts again uses that file and asks for newer ones."""

import json
from dataclasses import dataclass
from hashlib import pbkdf2_hmac, sha256
from os import urandom
from pathlib import Path

from flightllm.common.atomic_files import write_atomically
from flightllm.engines.secrets import shown_address

_ROUNDS = 100_000
"""Rounds of hashing: the address can contain a password, which must not be guessable from the record."""


@dataclass(frozen=True, slots=True)
class DownloadedFile:
    """A file that was downloaded from an address before, and that nobody has changed since."""

    path: Path
    only_newer: dict[str, str]
    """Headers that request only a newer version; empty if the other server sent no version."""


def find_download(address: str, folder: Path) -> DownloadedFile | None:
    """Return the file that was downloaded from an address; None if it has no record, or was changed or removed."""
    try:
        record = json.loads(_record_path(address, folder).read_text(encoding="utf-8"))
        path = folder / Path(record["name"]).name  # never a file outside the folder
        same_address = record["address"] == _address_hash(address, bytes.fromhex(record["salt"]))
        unchanged = record["state"] == _size_and_time(path)
        only_newer = {str(name): str(value) for name, value in record["headers"].items()}
    except (OSError, ValueError, TypeError, AttributeError, LookupError, RecursionError):
        return None  # no record, no file, or a record that another program wrote
    return DownloadedFile(path, only_newer) if same_address and unchanged else None


def record_download(address: str, path: Path, etag: str | None, modified: str | None) -> None:
    """Write, beside a downloaded file, a record of its address without the address's secrets.

    Raises:
        OSError: the record cannot be written.
    """
    salt = urandom(16)
    only_newer = {"If-None-Match": etag, "If-Modified-Since": None if etag else modified}
    record = {
        "name": path.name,
        "address": _address_hash(address, salt),
        "salt": salt.hex(),
        "state": _size_and_time(path),
        "headers": {name: value for name, value in only_newer.items() if value},
    }
    write_atomically(_record_path(address, path.parent), json.dumps(record).encode())


def _record_path(address: str, folder: Path) -> Path:
    return folder / f".flightllm-download-{sha256(shown_address(address).encode()).hexdigest()[:16]}.json"


def _address_hash(address: str, salt: bytes) -> str:
    return pbkdf2_hmac("sha256", address.encode(), salt, _ROUNDS).hex()


def _size_and_time(path: Path) -> list[int]:
    """Return a file's size in bytes and its modification time in nanoseconds: most changes change one of them."""
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]
