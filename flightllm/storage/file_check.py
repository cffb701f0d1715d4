"""Compares data files with their digests, in the background."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import structlog

from flightllm.common.stopping import check_wanted
from flightllm.errors import InternalError
from flightllm.storage.damage import list_of_tables, named_files
from flightllm.storage.digest import digest_of
from flightllm.storage.disk import is_missing
from flightllm.storage.folder import TablesFolder
from flightllm.storage.layout import FILES
from flightllm.storage.rows import StoredFile

FileStatus = Literal["ok", "unchecked", "damaged", "missing", "no digest"]
"""The state of a data file. A file that this run wrote is `ok`; earlier versions wrote files without a digest."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of a comparison: the number of files, their bytes, the files without a digest, and damaged files."""

    files: int
    bytes: int
    without_digest: int
    damaged: Sequence[str]


_REST = 3
"""The check rests this many times as long as it reads, so it takes about a quarter of the disk's time and of a core.

A low priority of its thread would not do: busy cores could stop the thread while it holds a lock or the interpreter.
"""
_LONGEST_REST_SECONDS = 1.0
_LONGEST_END_SECONDS = 5.0
"""`close` waits this long for the thread, because a disk that hangs must not keep the server from ending."""
_log = structlog.get_logger(__name__)


class FileCheck:
    """The check of the data files that an earlier run left: each is read once. Thread-safe."""

    def __init__(self, folder: TablesFolder, tell: Callable[[str, FileStatus], None]) -> None:
        """Check nothing yet. `tell` gets the name and the state of each compared file."""
        self._folder = folder
        self._tell = tell
        self._states: dict[str, FileStatus] = {}
        """Single keys are read and written, so no lock is needed."""
        self._left: list[StoredFile] = []
        self._stop, self._done = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, files: Iterable[StoredFile], damaged: Iterable[str]) -> None:
        """Add files of an earlier run, before `start`; `damaged` names those that were found damaged before."""
        found = list(files)
        self._left += [file for file in found if file.sha256]
        self._states |= {file.name: "unchecked" if file.sha256 else "no digest" for file in found}
        self._states |= dict.fromkeys(damaged, "damaged")

    def start(self) -> None:
        """Start the check in a thread of its own. Idempotent."""
        if self._thread is None and not self._stop.is_set():
            self._thread = threading.Thread(target=self._run, name="flightllm-file-check", daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait until all files were compared; return whether this is so."""
        return self._done.wait(seconds)

    def close(self) -> None:
        """End the check. Idempotent. A thread whose disk hangs ends as soon as the disk answers, and tells nothing."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_LONGEST_END_SECONDS)
            if self._thread.is_alive():
                _log.warning("the check of the data files does not end: the disk does not answer")

    def status(self, file: StoredFile) -> FileStatus:
        """Return the state of a file of a table."""
        return self._states.get(file.name, "ok")

    def compare(self, files: Iterable[StoredFile]) -> bool:
        """Compare at once those files that wait for the check, for a caller that rewrites their rows.

        Return False at the first damaged file. Its table can lack the mark, because the check notes the state of a
        file before it calls `tell`.

        Raises:
            CancelledError: the statement was cancelled.
            InternalError: a file cannot be read.
        """
        for file in files:
            if self._states.get(file.name) == "unchecked":
                try:
                    self._compare(file, lambda _: check_wanted())
                except OSError as error:
                    _log.exception("a data file cannot be read", file=file.name)
                    raise InternalError(
                        "a file of a table cannot be read, so nothing was changed; see the server's log for its name"
                    ) from error
            if self._states.get(file.name) == "damaged":
                return False
        return True

    def _run(self) -> None:
        begun, size, files = time.monotonic(), 0, sorted(self._left, key=self._order)
        for file in files:
            try:
                if self._states[file.name] != "ok":  # a statement compared it meanwhile
                    self._compare(file, self._rest)
            except _StoppedError:
                return
            except OSError as error:  # it says nothing about the bytes, and readers of the file get an error, too
                _log.warning("a data file cannot be read", file=file.name, error=error.strerror)
            except Exception:  # noqa: BLE001 - one file must not keep the others from being compared
                _log.exception("a data file was not compared", file=file.name)
            size += file.bytes
        states = list(self._states.values())
        if files:
            _log.info(
                "data files were compared with their digests",
                files=len(files), bytes=size, seconds=round(time.monotonic() - begun, 1),
                damaged=states.count("damaged"), without_digest=states.count("no digest"),
            )  # fmt: skip
        self._done.set()

    def _order(self, file: StoredFile) -> tuple[bool, int]:
        """Sort files that were damaged to the front, because they can be mended; then small files."""
        return self._states[file.name] != "damaged", file.bytes

    def _rest(self, seconds: float) -> None:
        """Rest after a piece that took `seconds`, so that statements get most of the disk's time."""
        if self._stop.wait(min(_REST * seconds, _LONGEST_REST_SECONDS)):
            raise _StoppedError

    def _compare(self, file: StoredFile, rest: Callable[[float], None]) -> None:
        try:
            whole = digest_of(self._folder.file(file.name), rest) == file.sha256
        except OSError as error:  # a statement replaced the file; or it is lost, which each look-up of its table sees
            if not is_missing(error):
                raise
            self._states[file.name] = "missing"
            return
        rest(0.0)  # after `close` another server can own the folder, so nothing is told
        status: FileStatus = "ok" if whole else "damaged"
        self._states[file.name] = status
        self._tell(file.name, status)


def compare_all(folder: Path) -> Compared:
    """Compare all data files of a folder of tables, which a server can use meanwhile.

    Raises:
        ConfigError: the list of tables is missing or damaged.
    """
    files = named_files(folder, list_of_tables(folder))
    harmed = list[str]()
    for name, file in files.items():
        path = folder / FILES / name
        try:
            whole = path.stat().st_size == file.bytes and file.sha256 in {"", digest_of(path)}
        except OSError:
            whole = name not in named_files(folder, list_of_tables(folder))  # a statement replaced the file meanwhile
        if not whole:
            harmed.append(f"{path} of the table {file.table}")
    size, without = sum(file.bytes for file in files.values()), sum(not file.sha256 for file in files.values())
    return Compared(len(files), size, without, harmed)


class _StoppedError(Exception):
    """The check ends before a file was read to its end."""
