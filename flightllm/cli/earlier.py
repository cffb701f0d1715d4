"""The file that an earlier start downloaded from an address, so that a server can start again with that file."""

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
class Earlier:
    """A file in this folder that was downloaded from the address and is unchanged since."""

    path: Path
    headers: dict[str, str]
    """Headers that request only a newer version; empty if the other server sent no version."""


def find_earlier(address: str, folder: Path) -> Earlier | None:
    """Return the file of an earlier start; None if it has no record, or was changed or removed."""
    try:
        record = json.loads(_record(address, folder).read_text(encoding="utf-8"))
        path = folder / Path(record["name"]).name
        if record["address"] != _proof(address, bytes.fromhex(record["salt"])) or record["state"] != _state(path):
            return None
        return Earlier(path, {str(name): str(value) for name, value in record["headers"].items()})
    except (OSError, ValueError, TypeError, AttributeError, LookupError, RecursionError):  # not our record
        return None


def remember(address: str, path: Path, etag: str | None, modified: str | None) -> None:
    """Write, beside a downloaded file, a record of its address without the address's secrets.

    Raises:
        OSError: the record cannot be written.
    """
    salt = urandom(16)
    versions = {"If-None-Match": etag, "If-Modified-Since": None if etag else modified}
    record = {
        "name": path.name,
        "address": _proof(address, salt),
        "salt": salt.hex(),
        "state": _state(path),
        "headers": {name: value for name, value in versions.items() if value},
    }
    write_atomically(_record(address, path.parent), json.dumps(record).encode())


def _record(address: str, folder: Path) -> Path:
    return folder / f".flightllm-download-{sha256(shown_address(address).encode()).hexdigest()[:16]}.json"


def _proof(address: str, salt: bytes) -> str:
    return pbkdf2_hmac("sha256", address.encode(), salt, _ROUNDS).hex()


def _state(path: Path) -> list[int]:
    """Return a file's size and modification time, which show changes of its content."""
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]
