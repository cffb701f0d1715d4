"""A lock that lets one process at a time use a folder."""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakSet

from flightllm.errors import ConfigError

_LOCK, _KEPT, _SETTING = ".lock", "tables", "data_folder"


class FolderLock:
    """An exclusive lock on a folder, held until it is closed or the process ends in any way.

    Forked processes do not hold the lock: a child that outlives a killed server must not block the next server. The
    process that replaces a server without a stop gets the locks of its predecessor by `inherit_locks`.
    """

    def __init__(self, folder: Path, kept: str = _KEPT, setting: str = _SETTING) -> None:
        """Take the lock; creates a missing folder.

        `kept` names the folder's content, and `setting` the setting with its path, for error messages.

        Raises:
            ConfigError: another server holds the lock, or the folder cannot be used.
        """
        self._descriptor = -1
        with _usable(folder, kept, setting):
            folder.mkdir(parents=True, exist_ok=True)
            self._folder = str(folder.resolve())
            given = _inherited.pop(self._folder, None)
            self._descriptor = _opened(folder, os.O_CREAT) if given is None else given
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            raise ConfigError(
                f"another process uses the folder {folder}: stop it, or give this one a {setting} of its own"
            ) from error
        _held.add(self)

    @property
    def folder(self) -> str:
        """Return the folder's absolute path."""
        return self._folder

    @property
    def descriptor(self) -> int:
        """Return the descriptor that holds the lock; negative once the lock is closed."""
        return self._descriptor

    def close(self) -> None:
        """Release the lock, unless another process shares it. Idempotent."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    __del__ = close


def check_lock(folder: Path) -> None:
    """Check that a server can lock a folder, whether another server holds the lock or not; make nothing.

    Raises:
        ConfigError: the folder cannot be used.
    """
    with _usable(folder, _KEPT, _SETTING), suppress(FileNotFoundError):
        os.close(_opened(folder, 0))


def _opened(folder: Path, more: int) -> int:
    return os.open(folder / _LOCK, os.O_RDWR | more, 0o600)


@contextmanager
def _usable(folder: Path, kept: str, setting: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        lock, reason = folder / _LOCK, error.strerror
        if not os.path.lexists(lock):
            text = f"the folder {folder} cannot be used for {kept}: {reason}; set {setting}, or FLIGHTLLM_HOME"
        elif lock.is_file():
            text = f"the file {lock} cannot be used: {reason}; give it to the server's user, or delete it"
        else:
            text = f"{lock} cannot be used: {reason}; move it away, because the server makes a file of this name"
        raise ConfigError(text) from error


_held: WeakSet[FolderLock] = WeakSet()
_inherited: dict[str, int] = {}


def held_locks() -> dict[str, int]:
    """Return the folders that this process has locked, and the descriptors that hold the locks."""
    return {lock.folder: lock.descriptor for lock in list(_held) if lock.descriptor >= 0}


def inherit_locks(locks: Mapping[str, int]) -> None:
    """Take these folders and descriptors of another process: the next `FolderLock` of each folder shares its lock."""
    _inherited.update(locks)


def _forget() -> None:
    for lock in list(_held):
        lock.close()


os.register_at_fork(after_in_child=_forget)
