"""Files at http:// and https:// addresses, downloaded into the working folder before they become tables."""

import re
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPException, HTTPResponse, InvalidURL
from pathlib import Path, PurePosixPath
from shutil import disk_usage
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from flightllm.catalog.files import readable
from flightllm.errors import ConfigError
from flightllm.llm.secrets import shown_address

MOST_BYTES = 4 << 30
_MOST_SECONDS = 1_800.0
_WAIT_SECONDS = 30.0
"""Without a byte."""
_CHUNK = 1 << 20
_ADDRESS = re.compile(r"[a-z]+://[^\s'\"]+", re.IGNORECASE)
_BY_ANOTHER = "{}: download it by another program, and name the file"
_START = 20
"""Bytes that show whether it is a web page."""
_HTML = (b"<!doctype html", b"<html")
_ENDINGS = {
    "text/csv": ".csv",
    "text/tab-separated-values": ".tsv",
    "application/json": ".json",
    "application/x-ndjson": ".jsonl",
    "application/vnd.apache.parquet": ".parquet",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
}
"""What a name without an ending gets, by the type that the other server tells."""


def download(address: str, folder: Path, note: Callable[[str], None], most_bytes: int = MOST_BYTES) -> Path:
    """Download a file into a folder, under its own name, and return its path; `note` is told of it.

    Raises:
        ConfigError: the address is wrong, answers with an error or a web page, or gives too much; or a file of this
            name is there already; or it cannot be written. No error shows a secret of the address.
    """
    shown = shown_address(address)
    try:
        request = _request(address)
        with urllib.request.urlopen(request, timeout=_WAIT_SECONDS) as answer:  # noqa: S310
            path = folder / _name(address, answer.headers.get_content_type(), shown)
            if path.exists():
                raise ConfigError(f"{shown}: {path} is there already: name that file, or move it away to download anew")
            _write(answer, path, shown, most_bytes)
    except urllib.error.HTTPError as error:
        error.close()
        raise ConfigError(f"{shown} cannot be downloaded: HTTP {error.code} {_reason(error)}") from error
    except (HTTPException, ValueError, OSError) as error:
        raise ConfigError(f"{shown} cannot be downloaded: {_reason(error)}") from error
    note(f"{shown} is downloaded to {path}, {path.stat().st_size:,} bytes")
    return path


def _request(address: str) -> urllib.request.Request:
    """Return a request; a user and a password in its address become a header, which redirects do not get."""
    parts = urlsplit(address)
    user, at, host = parts.netloc.rpartition("@")
    request = urllib.request.Request(  # noqa: S310 - the caller looked
        parts._replace(netloc=host, fragment="").geturl(),
        headers={"Accept-Encoding": "identity", "User-Agent": "flightllm"},
    )
    if at:
        name, _, password = user.partition(":")
        told = b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {told}")
    return request


def _reason(error: Exception) -> str:
    """Return why a request failed; what http.client says of a wrong address can hold a password of that address."""
    reason = getattr(error, "reason", None) or error
    if isinstance(reason, InvalidURL | ValueError) and not isinstance(reason, OSError):
        return "the address, or the one that it leads to, is wrong"
    return _ADDRESS.sub(lambda found: shown_address(found[0]), str(reason))


def _name(address: str, kind: str, shown: str) -> str:
    """Return the name for a file: the last part of its address, with an ending that says what it is."""
    if kind == "text/html":
        raise ConfigError(f"{shown} is a web page, not a file: name the address of the file itself")
    name = PurePosixPath(unquote(urlsplit(address).path)).name.lstrip(".") or "download"
    name = "".join(letter for letter in name if letter.isprintable() and letter not in '/\\:*?"<>|')
    if not readable(Path(name)):
        name += _ENDINGS.get(kind, "")
    if not readable(Path(name)):
        raise ConfigError(f"{shown}: its name does not end like that of a table, and its type {kind} is no table's")
    return name


def _write(answer: HTTPResponse, path: Path, shown: str, most_bytes: int) -> None:
    """Write what comes to a file, which has its name once it is whole."""
    beside = path.with_name(f".{path.name}-{uuid4().hex}")
    try:
        _check_space(answer.length or 0, path.parent, shown, most_bytes)
        with beside.open("wb") as file:
            for chunk in _chunks(answer, shown, most_bytes):
                file.write(chunk)
        beside.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def _check_space(size: int, folder: Path, shown: str, most_bytes: int) -> None:
    """Check the size that the other server tells before anything is read."""
    if size > most_bytes:
        raise ConfigError(_BY_ANOTHER.format(f"{shown} is larger than {most_bytes:,} bytes"))
    free = disk_usage(folder).free
    if size > free:
        raise ConfigError(f"{shown} has {size:,} bytes, and {folder} has space for {free:,}")


def _chunks(answer: HTTPResponse, shown: str, most_bytes: int) -> Iterator[bytes]:
    """Yield what comes, up to the limits.

    Raises:
        ConfigError: it is a web page, too much, too slow or not whole; so that any OSError is one of writing.
    """
    ends, size, start = time.monotonic() + _MOST_SECONDS, 0, b""
    try:
        while chunk := answer.read1(_CHUNK):  # what is there: a slow server must not hold it back until it is 1 MiB
            if len(start) < _START:
                start = (start + chunk[:_START]).lstrip()
                if start.lower().startswith(_HTML):
                    raise ConfigError(f"{shown} is a web page, not a file: name the address of the file itself")
            size += len(chunk)
            if size > most_bytes:
                raise ConfigError(_BY_ANOTHER.format(f"{shown} is larger than {most_bytes:,} bytes"))
            if time.monotonic() > ends:
                raise ConfigError(_BY_ANOTHER.format(f"{shown} takes more than {_MOST_SECONDS:,.0f} seconds"))
            yield chunk
    except (HTTPException, OSError) as error:
        raise ConfigError(f"{shown} cannot be downloaded: {_reason(error)}") from error
    if answer.length:
        raise ConfigError(f"{shown} broke off {answer.length:,} bytes before its end: try again")
