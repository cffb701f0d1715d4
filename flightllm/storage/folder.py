"""The folder with all stored tables: data files that never change, and a manifest that names the valid ones.

Readers keep the files that they can need: a folder of links is removed once the last of these readers has closed.
"""

import json
import os
import shutil
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self
from uuid import uuid4

import structlog

from flightllm.common.atomic_files import sync, write_atomically
from flightllm.errors import CancelledError, ConfigError
from flightllm.storage.change_ids import new_id
from flightllm.storage.damage import check_places, damaged, list_of_tables
from flightllm.storage.disk import disk_errors, of_one_file
from flightllm.storage.layout import COPY, DAMAGED, FILES, MANIFEST, PREVIOUS, READING, UNFINISHED
from flightllm.storage.leftovers import Leftovers
from flightllm.storage.lock import FolderLock
from flightllm.storage.made import mark_of
from flightllm.storage.sealed import sealed, unsealed

_log = structlog.get_logger(__name__)


class TablesFolder:
    """One server's tables on disk.

    `files` has the data files; each is written once, under a new name. Its name says that it is unfinished until a
    manifest names it. Queries read through folders of hard links below `reading`, one for each state of a table. So a
    data file can be removed while queries still read it. `set-aside` has what a start found and did not know.
    """

    def __init__(self, folder: Path) -> None:
        """Lock the folder; what an earlier run left stays until `leftovers` are tidied.

        Raises:
            ConfigError: another server uses the folder, or it cannot be written; or its list of tables is missing
                although there were tables.
        """
        list_of_tables(folder)  # first: a start that is refused makes no folder, such as where a disk is not mounted
        check_places(folder)
        self.readers = Readers()
        self.unsure = False
        """Whether a manifest whose write failed can be on disk; its files must stay until another manifest is written.
        """
        self._folder = folder
        self._unremoved: set[Path] = set()
        """Files that the disk did not remove."""
        self._closing, self._closed = threading.Lock(), False
        self._lock = FolderLock(folder)
        try:
            self.leftovers = Leftovers(folder)
            for name in (FILES, READING):
                (folder / name).mkdir(exist_ok=True)
            sync(folder.parent)
        except OSError as error:
            self._lock.close()
            raise ConfigError(f"the folder {folder} cannot be written: {error.strerror}; set data_folder") from error

    def load(self) -> str | None:
        """Return the manifest's text, or None if there were no tables yet.

        Raises:
            ConfigError: the manifest cannot be read, or it is missing although there were tables.
        """
        return list_of_tables(self._folder)

    def load_previous(self) -> str:
        """Return the text of the previous manifest, or "" where it is missing or unreadable."""
        try:
            return (self._folder / PREVIOUS).read_bytes().decode()
        except (OSError, UnicodeDecodeError):
            return ""

    def load_damaged(self) -> set[str]:
        """Return the data files that an earlier run found damaged. A damaged list is empty: they are found again."""
        try:
            text = (self._folder / DAMAGED).read_bytes().decode()
            return set(map(str, unsealed(text, ())["files"]))
        except FileNotFoundError:
            return set()
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.warning("the list of damaged files cannot be read", file=DAMAGED, error=str(error))
            return set()

    def save_damaged(self, names: Collection[str]) -> None:
        """Keep the names of damaged data files for the next run, if the disk can take the list."""
        path = self._folder / DAMAGED
        try:
            if names:
                write_atomically(path, sealed(json.dumps({"files": sorted(names)})).encode())
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("the list of damaged files cannot be written", file=DAMAGED, error=error.strerror)

    def damaged(self, reason: str) -> ConfigError:
        """Return the error that the manifest is damaged; the message says what to do."""
        return damaged(self._folder, reason)

    def commit(self, manifest: str, former: Callable[[], str], added: Collection[str]) -> None:
        """Replace the manifest; keep the former one as `manifest.json.previous`.

        `former` returns the text of the former manifest. It is written first if it is missing, so that data files
        never are without a manifest. `added` are the data files that only the new manifest names.

        Raises:
            CancelledError: the folder is closed, so another server can own it by now.
            LimitExceededError: the disk is full.
            InternalError: the manifest cannot be written for another reason.
        """
        path, previous = self._folder / MANIFEST, self._folder / PREVIOUS
        with self._closing, disk_errors():
            if self._closed:
                raise CancelledError("the server is stopping, so nothing was changed")
            if not self.unsure:  # if unsure, the present manifest failed, and the previous one is valid
                if not path.exists():
                    write_atomically(path, former().encode())
                previous.unlink(missing_ok=True)
                os.link(path, previous)
            self._publish(added)
            try:
                write_atomically(path, manifest.encode())
            except OSError:
                self.unsure = not self._take_back()
                raise
            self.unsure = False
            self._remove(map(self._unfinished, added))
            self.mark()

    def mark(self) -> None:
        """Write the file beside the folder that tells that there is a manifest; if this fails, the next call tries."""
        mark = mark_of(self._folder)
        try:
            mark.write()
        except OSError as error:
            _log.warning("a file cannot be written", file=str(mark.path), error=error.strerror)

    def _publish(self, names: Collection[str]) -> None:
        """Give data files the name that the manifest has; the unfinished name stays until the manifest is written.

        A crash in between leaves both names. So the next start knows that no manifest named the file.
        """
        for name in names:
            with suppress(FileExistsError):  # an earlier try failed after this
                os.link(self._unfinished(name), self._folder / FILES / name)
        if names:
            sync(self._folder / FILES)

    def _take_back(self) -> bool:
        """Restore the former manifest: the new one can be in its place although writing it failed.

        Returns whether this succeeded.
        """
        try:
            (self._folder / PREVIOUS).replace(self._folder / MANIFEST)
        except OSError as error:
            _log.warning("the former list of tables cannot be restored after a failed write", error=error.strerror)
            return False
        return True

    def new_file(self, suffix: str) -> Path:
        """Return an unused path for a new data file. `name_of` returns the name of the file."""
        return self._unfinished(f"{new_id()}{suffix}")

    def file(self, name: str) -> Path:
        """Return the path of a data file; until a manifest names the file, its unfinished name."""
        path, unfinished = self._folder / FILES / name, self._unfinished(name)
        return unfinished if not path.exists() and unfinished.exists() else path

    def _unfinished(self, name: str) -> Path:
        return self._folder / FILES / f"{UNFINISHED}{name}"

    def free_bytes(self) -> int:
        """Return how many more bytes the disk can take; 0 if the disk does not say."""
        try:
            return shutil.disk_usage(self._folder).free
        except OSError:
            return 0

    def sync(self, names: Collection[str]) -> None:
        """Wait until the content of data files is on disk; `commit` does so for their names.

        Raises:
            LimitExceededError: the disk is full.
            InternalError: the files cannot be written for another reason.
        """
        with disk_errors():
            for name in names:
                sync(self.file(name))

    def remove(self, names: Collection[str]) -> None:
        """Remove data files, which neither manifest must name."""
        self._remove(path for name in names for path in (self._folder / FILES / name, self._unfinished(name)))

    def _remove(self, paths: Iterable[Path]) -> None:
        """Remove files. Those that the disk does not remove now are tried again with the next ones, or at a start."""
        for path in {*paths, *self._unremoved}:
            self._unremoved.discard(path)
            try:
                path.unlink(missing_ok=True)
            except OSError:
                self._unremoved.add(path)

    def link(self, names: Sequence[str], suffix: str, *, written: bool = True) -> Path:
        """Return a new folder of links to data files, named in the given order; skips missing files.

        If an earlier run wrote them (`written` is False), also skip files that cannot be used: other tables still work.

        Raises:
            LimitExceededError: the disk is full.
            InternalError: the links cannot be made for another reason.
        """
        folder = self._new_reading("")
        with disk_errors():
            for index, name in enumerate(names):
                try:
                    os.link(self.file(name), folder / link_name(index, suffix))
                except FileNotFoundError:
                    continue
                except OSError as error:
                    if written or not of_one_file(error):
                        raise
                    _log.error("a data file cannot be used: check its owner and kind", file=name, error=error.strerror)
        return folder

    def new_reading(self) -> Path:
        """Return a new empty folder for copies to read. `readers` must retire it, and a restart removes it.

        Raises:
            LimitExceededError: the disk is full.
            InternalError: the folder cannot be made for another reason.
        """
        return self._new_reading(COPY)

    def _new_reading(self, prefix: str) -> Path:
        folder = self._folder / READING / f"{prefix}{uuid4().hex}"
        with disk_errors():
            folder.mkdir()
        return folder

    def close(self, *, remove: bool = False) -> None:
        """Release the folder, or remove it. Idempotent."""
        with self._closing:
            self._closed = True
            if remove:
                shutil.rmtree(self._folder, ignore_errors=True)
                with suppress(OSError):
                    mark_of(self._folder).path.unlink(missing_ok=True)
            self._lock.close()


class Reader:
    """A token that keeps all folders readable that existed when it was opened. Closes itself when garbage-collected."""

    def __init__(self, readers: "Readers", number: int) -> None:
        self._readers = readers
        self._number = number

    def close(self) -> None:
        """End the reading. Idempotent."""
        self._readers.ended(self._number)

    __del__ = close

    def __enter__(self) -> Self:
        """Return this reader."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the reader."""
        self.close()


class Readers:
    """All open readers, and the retired folders that wait for older readers to close. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0
        self._open: OrderedDict[int, None] = OrderedDict()
        """The numbers of the open readers, ascending."""
        self._retired: deque[tuple[Path, int]] = deque()
        """Each folder, with the number of the first reader that cannot need it; ascending."""
        self._ended: deque[int] = deque()
        """Numbers of closed readers to remove from the open ones; 0 stands for no reader."""

    def open(self) -> Reader:
        """Return a new reader."""
        with self._lock:
            self._next += 1
            number = self._next
            self._open[number] = None
        self._sweep()
        return Reader(self, number)

    def retire(self, folder: Path) -> None:
        """Remove a folder once all readers that are open now have closed."""
        with self._lock:
            self._retired.append((folder, self._next + 1))
        self.ended(0)

    def ended(self, number: int) -> None:
        """Close a reader, and remove the folders that only it needed.

        Garbage collection can close a reader at any moment, also in a thread that holds the lock. So this never waits
        for the lock: the thread that holds the lock then does the work.
        """
        self._ended.append(number)
        self._sweep()

    def _sweep(self) -> None:
        gone = list[Path]()
        while self._ended and self._lock.acquire(blocking=False):
            try:
                while self._ended:
                    self._open.pop(self._ended.popleft(), None)
                first = next(iter(self._open), self._next + 1)
                while self._retired and self._retired[0][1] <= first:
                    gone.append(self._retired.popleft()[0])
            finally:
                self._lock.release()
        for folder in gone:
            shutil.rmtree(folder, ignore_errors=True)


def name_of(path: Path) -> str:
    """Return the name of a data file, which can still have its unfinished name."""
    return path.name.removeprefix(UNFINISHED)


def link_name(index: int, suffix: str) -> str:
    """Return the name of the link to a table's file at this index."""
    return f"{index:06}{suffix}"
