"""Files at http:// and https:// addresses, downloaded into the working folder before they become tables."""

import gzip
import io
import os
import re
import time
import urllib.error
import urllib.request
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, InvalidURL
from pathlib import Path, PurePosixPath
from shutil import disk_usage
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from flightllm.connection.download_record import DownloadedFile, find_download, record_download
from flightllm.engines.secrets import shown_address
from flightllm.errors import ConfigError
from flightllm.file_formats.paths import readable

MOST_BYTES = 4 << 30
_MOST_SECONDS = 1_800.0
_WAIT_SECONDS = 30.0
"""The longest wait for the next byte."""
_CHUNK = 1 << 20
_ADDRESS = re.compile(r"[a-z]+://[^\s'\"]+", re.IGNORECASE)
_THERE = "{}: the file {} exists: name that file, or move it away to download it again"
_BY_ANOTHER = "{}: download it with another program, and name the file"
_START = 20
"""Bytes at the start of a file that show whether it is a web page."""
_HTML = (b"<!doctype html", b"<html")
_ENDINGS = {
    "text/csv": ".csv",
    "text/tab-separated-values": ".tsv",
    "application/json": ".json",
    "application/x-ndjson": ".jsonl",
    "application/vnd.apache.parquet": ".parquet",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
}
"""The ending to add to a name without an ending, by the content type in the response."""


def download(address: str, folder: Path, note: Callable[[str], None], most_bytes: int = MOST_BYTES) -> Path:
    """Download a file into a folder under its own name and return its path; `note` gets messages about it.

    If a file came from this address before, a newer version replaces it. If there is no newer version, or the download
    fails, that file is used unchanged.

    Raises:
        ConfigError: the address is wrong, or returns an error, a web page or too many bytes. Another file has this
        name, or the file cannot be written. No error shows a secret of the address.
    """
    shown = shown_address(address)
    earlier = find_download(address, folder)
    try:
        path = _fetched(address, folder, earlier, most_bytes)
    except ConfigError as error:
        if earlier is None:
            raise
        note(f"{error}; using the file that was downloaded before, {earlier.path}")
        return earlier.path
    if path is None and earlier is not None:
        note(f"{shown} has no newer version than {earlier.path}, which was downloaded before")
        return earlier.path
    if path is None:
        raise ConfigError(f"{shown} cannot be downloaded: its server answers 304 (not modified), but no file is there")
    note(f"{shown} was downloaded to {path}, {path.stat().st_size:,} bytes")
    return path


def _fetched(address: str, folder: Path, earlier: DownloadedFile | None, most_bytes: int) -> Path | None:
    """Return the downloaded file, or None if the earlier file is still current."""
    shown = shown_address(address)
    try:
        request = _request(address, {} if earlier is None else earlier.only_newer)
        with urllib.request.urlopen(request, timeout=_WAIT_SECONDS) as answer:  # noqa: S310
            path = folder / _name(address, answer.headers.get_content_type(), shown)
            ours = earlier is not None and earlier.path == path
            if path.exists() and not ours:
                raise ConfigError(_THERE.format(shown, path))
            _write(answer, path, shown, most_bytes, replaces=ours)
            _record(address, path, answer)
            return path
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == HTTPStatus.NOT_MODIFIED:
            return None
        raise ConfigError(f"{shown} cannot be downloaded: HTTP {error.code} {_reason(error)}") from error
    except (HTTPException, ValueError, OSError) as error:
        raise ConfigError(f"{shown} cannot be downloaded: {_reason(error)}") from error


def _record(address: str, path: Path, answer: HTTPResponse) -> None:
    try:
        record_download(address, path, answer.headers["ETag"], answer.headers["Last-Modified"])
    except OSError as error:
        raise ConfigError(f"cannot write beside {path}: {error.strerror or error}") from error


def _request(address: str, version: Mapping[str, str]) -> urllib.request.Request:
    """Return a request; the address's user and password become a header, which is not sent on to redirects."""
    parts = urlsplit(address)
    user, at, host = parts.netloc.rpartition("@")
    request = urllib.request.Request(  # noqa: S310 - the caller checked the scheme
        parts._replace(netloc=host, fragment="").geturl(),
        headers={"Accept-Encoding": "identity", "User-Agent": "flightllm", **version},
    )
    if at:
        name, _, password = user.partition(":")
        told = b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {told}")
    return request


def _reason(error: Exception) -> str:
    """Return the reason of a failure; http.client's own text about a wrong address can contain the password."""
    reason = getattr(error, "reason", None) or error
    if isinstance(reason, InvalidURL | ValueError) and not isinstance(reason, OSError):
        return "the address, or an address that it redirects to, is not valid"
    return _ADDRESS.sub(lambda found: shown_address(found[0]), str(reason))


def _name(address: str, kind: str, shown: str) -> str:
    """Return the file name: the last part of the address, with an ending that shows the format."""
    if kind == "text/html":
        raise ConfigError(f"{shown} is a web page, not a file: name the address of the file itself")
    name = PurePosixPath(unquote(urlsplit(address).path)).name.lstrip(".") or "download"
    name = "".join(letter for letter in name if letter.isprintable() and letter not in '/\\:*?"<>|')
    if not readable(Path(name)):
        name += _ENDINGS.get(kind, "")
    if not readable(Path(name)):
        raise ConfigError(f"{shown}: neither the ending of its name nor its type {kind} belongs to a table file")
    return name


def _write(answer: HTTPResponse, path: Path, shown: str, most_bytes: int, *, replaces: bool) -> None:
    """Write a response to a file, which gets its name once it is complete; only `replaces` overwrites a file."""
    beside = path.with_name(f".{path.name}-{uuid4().hex}")
    try:
        _check_space(answer.length or 0, path.parent, shown, most_bytes)
        with beside.open("wb") as file:
            for chunk in _chunks(answer, _unpacked(answer, path, shown), shown, most_bytes):
                file.write(chunk)
        if replaces:
            beside.replace(path)
        else:
            _link(beside, path)
    except FileExistsError as error:  # another program made the file during the download
        raise ConfigError(_THERE.format(shown, path)) from error
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def _link(beside: Path, path: Path) -> None:
    """Give a file its name, unless another file has that name by now."""
    try:
        os.link(beside, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        path.open("xb").close()
        beside.replace(path)


class _AsItComes(io.RawIOBase):
    """A response as a reader that returns available bytes at once, instead of waiting for the requested number."""

    def __init__(self, answer: HTTPResponse) -> None:
        self._answer = answer

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes; an empty result at the end."""
        return self._answer.read1(size)


def _unpacked(answer: HTTPResponse, path: Path, shown: str) -> HTTPResponse | gzip.GzipFile:
    """Return a response without the compression of the transfer, which some servers apply without a request.

    Raises:
        ConfigError: the compression is not gzip.
    """
    way = answer.headers.get("Content-Encoding", "").strip().lower()
    if way in {"", "identity"} or ("gzip" in way and path.suffix.lower() == ".gz"):  # the file itself is compressed
        return answer
    if way in {"gzip", "x-gzip"}:
        return gzip.GzipFile(fileobj=_AsItComes(answer), mode="rb")
    raise ConfigError(_BY_ANOTHER.format(f"{shown} is sent with the compression {way!r}"))


def _check_space(size: int, folder: Path, shown: str, most_bytes: int) -> None:
    """Check the size in the response's header before any byte is read."""
    if size > most_bytes:
        raise ConfigError(_BY_ANOTHER.format(f"{shown} is larger than {most_bytes:,} bytes"))
    free = disk_usage(folder).free
    if size > free:
        raise ConfigError(f"{shown} has {size:,} bytes, and {folder} has space for {free:,}")


def _chunks(
    answer: HTTPResponse, unpacked: HTTPResponse | gzip.GzipFile, shown: str, most_bytes: int
) -> Iterator[bytes]:
    """Yield the uncompressed bytes of the file, up to the limits.

    Raises:
        ConfigError: the file is a web page, too large, too slow or incomplete. Reading never raises an OSError, so the
            caller knows that an OSError comes from writing.
    """
    ends, size, start = time.monotonic() + _MOST_SECONDS, 0, b""
    try:
        while chunk := unpacked.read1(_CHUNK):  # read1 returns at once; a slow server would take long for a whole chunk
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
    except EOFError as error:
        raise ConfigError(f"{shown} ended too early: try again") from error
    except (HTTPException, OSError, zlib.error) as error:
        raise ConfigError(f"{shown} cannot be downloaded: {_reason(error)}") from error
    if answer.length:
        raise ConfigError(f"{shown} ended {answer.length:,} bytes too early: try again")
