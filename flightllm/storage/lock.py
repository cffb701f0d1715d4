"""A lock that lets one process at a time use a folder."""

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from weakref import WeakSet

from flightllm.errors import ConfigError


class FolderLock:
    """An exclusive lock on a folder, held until it is closed or the process ends in any way.

    Forked processes do not hold the lock: a child that outlives a killed server must not block the next server. The
    process that replaces a server without a stop gets the locks of its predecessor by `inherit_locks`.
    """

    def __init__(self, folder: Path, kept: str = "tables", setting: str = "data_folder") -> None:
        """Take the lock; creates a missing folder.

        `kept` names the folder's content, and `setting` the setting with its path, for error messages.

        Raises:
            ConfigError: another server holds the lock, or the folder cannot be used.
        """
        self._descriptor = -1
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._folder = str(folder.resolve())
            given = _inherited.pop(self._folder, None)
            self._descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600) if given is None else given
        except OSError as error:
            raise ConfigError(
                f"the folder {folder} cannot be used for {kept}: {error.strerror}; set {setting}, or FLIGHTLLM_HOME"
            ) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            raise ConfigError(
                f"another server uses the folder {folder}: stop it, or give this one a {setting} of its own"
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
