"""Converts files to one Parquet file: in this process if their memory is bounded, else in a process of its own."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

import structlog

from flightllm import errors
from flightllm.common.limits import over_limit
from flightllm.errors import FlightLLMError, InternalError, InvalidInputError, LimitExceededError, check_cancelled
from flightllm.file_formats.compressed import COMPRESSIONS, open_bytes
from flightllm.file_formats.conversion import Conversion, SheetNames
from flightllm.file_formats.rows import DAMAGED

_SMALL_CSV, _SMALL_JSON = 8 << 20, 1 << 18
"""Files up to this size need no process: rows are bounded by it, and the number of columns is bounded as well.

JSON has the smaller bound, because each object can add columns. Sheets have no bound: two cells span billions.
"""
_CHUNK = 1 << 20
_IDLE_BYTES = 256 << 20
"""The private memory of a process that has loaded its libraries, with room: it does not count."""
_POLL_SECONDS = 0.05
_TOLD = 4_000
AT_ONCE = 4
"""The most processes at a time, because each can take `memory_bytes` beside the server's own memory."""
_PLACES = BoundedSemaphore(AT_ONCE)  # of the server: any of its databases can read files
_BOOT = """\
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from flightllm.common.pandas_import import put_off_pandas
put_off_pandas()
from flightllm.file_formats.conversion_child import main
main(int(sys.argv[2]))
"""
"""The program of a process."""
_NO_MEMORY = ("memory allocation", "failed to allocate", "MemoryError", "bad_alloc", "Cannot allocate memory")
_NO_DISK = ("File too large", "os error 27", "No space left on device")
_log = structlog.get_logger(__name__)


def sheet_names(path: Path, memory_bytes: int, stopped: Callable[[], bool], most_bytes: int | None = None) -> list[str]:
    """Return the names of the sheets or tables in a file; a process of its own reads the file.

    Raises:
        CancelledError: `stopped()` turned true; the process is then gone.
        InvalidInputError: the file cannot be read.
        LimitExceededError: reading takes more memory than `memory_bytes`, or the files in a zip file have more than
            `most_bytes` bytes together.
    """
    with tempfile.TemporaryDirectory(prefix="flightllm-") as folder:
        return _run_apart(SheetNames(path, Path(folder) / "names", most_bytes), memory_bytes, stopped)


def convert(work: Conversion, memory_bytes: int, stopped: Callable[[], bool]) -> list[str]:
    """Write the Parquet file of a conversion; return notes, one line each.

    Raises:
        CancelledError: `stopped()` turned true; the process is then gone.
        InvalidInputError: a file cannot be read; the message says where.
        LimitExceededError: the conversion takes more memory than `memory_bytes`.
    """
    return work.run() if _is_small(work) else _run_apart(work, memory_bytes, stopped)


def _is_small(work: Conversion) -> bool:
    if work.is_sheet:
        return False
    left = _SMALL_JSON if work.is_json else _SMALL_CSV
    for file in work.files:
        left -= _bytes_up_to(file, left)
        if left < 0:
            return False
    return True


def _bytes_up_to(file: Path, most: int) -> int:
    """Return the size of a file's content; more than `most` if the content is larger or its size is unknown."""
    kind = COMPRESSIONS.get(file.suffix.lower())
    try:
        if kind is None:
            return file.stat().st_size
        if kind == "xz":  # the first bytes can ask for a buffer of 4 GB
            return most + 1
        size = 0
        with open_bytes(file) as stream:
            while size <= most and (chunk := stream.read(_CHUNK)):
                size += len(chunk)
    except DAMAGED:  # the conversion says what is wrong
        return most + 1
    return size


@contextmanager
def _place(stopped: Callable[[], bool]) -> Iterator[None]:
    """Hold one of the places for a process while the context is open; wait for it, in no fixed order.

    Raises:
        CancelledError: `stopped()` turned true before there was a place.
    """
    while not _PLACES.acquire(timeout=_POLL_SECONDS):
        check_cancelled(stopped)
    try:
        yield
    finally:
        _PLACES.release()


def _run_apart(work: Conversion | SheetNames, memory_bytes: int, stopped: Callable[[], bool]) -> list[str]:
    with _place(stopped):
        return _run_in_process(work, memory_bytes, stopped)


def _run_in_process(work: Conversion | SheetNames, memory_bytes: int, stopped: Callable[[], bool]) -> list[str]:
    told = work.target.with_suffix(".told")
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        disk_bytes = _free_bytes(work.target.parent) // 2  # others write, too
        pickle.dump((work, memory_bytes + _IDLE_BYTES, disk_bytes, told), given)
        given.seek(0)
        process = subprocess.Popen(  # noqa: S603 - runs this same interpreter
            [sys.executable, "-P", "-c", _BOOT, json.dumps(sys.path), str(os.getpid())],
            stdin=given,
            stdout=said,
            stderr=said,
        )
        try:
            over = _await(process, memory_bytes + _IDLE_BYTES, stopped)
        finally:
            process.kill()
            process.wait()
            if isinstance(work, Conversion):  # a killed process leaves it
                shutil.rmtree(work.unpacked, ignore_errors=True)
        if not over and process.returncode == 0:
            notes = json.loads(told.read_text())
            told.unlink()
            return _notes(notes, work, memory_bytes)
        said.seek(0)
        text = said.read()[-_TOLD:].decode("utf-8", "replace")
    _log.warning("the process that read a file has ended", file=str(work.path), exit=process.returncode, said=text)
    if over or process.returncode == -9 or any(sign in text for sign in _NO_MEMORY):
        raise _no_memory(work, memory_bytes)
    raise InvalidInputError("it cannot be read: its reader has crashed, so the file is probably damaged")


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def _await(process: "subprocess.Popen[bytes]", most: int, stopped: Callable[[], bool]) -> bool:
    """Wait until a process ends; return True once its private memory exceeds `most` bytes."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_SECONDS)
            return False
        check_cancelled(stopped)
        with suppress(OSError, ValueError, IndexError):  # the process has just ended
            fields = Path(f"/proc/{process.pid}/statm").read_text().split()
            if (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE") > most:
                return True


def _notes(told: dict[str, Any], work: Conversion | SheetNames, memory_bytes: int) -> list[str]:
    """Return the notes that the process told, or raise its error."""
    if "notes" in told:
        return [str(note) for note in told["notes"]]
    kind, message = getattr(errors, str(told["error"]), None), str(told["message"])
    if any(sign in message for sign in _NO_DISK):
        raise LimitExceededError(
            f"the copy of {work.path.name} takes more than half of the free disk: free some space, split the file, or"
            " convert it to Parquet"
        )
    if told["error"] == "MemoryError" or any(sign in message for sign in _NO_MEMORY):
        raise _no_memory(work, memory_bytes)
    if isinstance(kind, type) and issubclass(kind, FlightLLMError):
        error = kind.__new__(kind, message)  # the text is complete, and some classes write their own
        error.limit = str(told.get("limit", ""))
        raise error
    raise InternalError("internal error")


def _no_memory(work: Conversion | SheetNames, memory_bytes: int) -> LimitExceededError:
    found = f"reading {work.path.name} takes too much memory"
    instead = "split the file, shorten its values, or convert it to Parquet"
    return over_limit("memory_bytes", memory_bytes, found, instead)
