"""A lock that lets one process at a time use a folder."""

import fcntl
import os
from pathlib import Path
from weakref import WeakSet

from flightllm.errors import ConfigError


class FolderLock:
    """An exclusive lock on a folder, held until it is closed or the process ends in any way.

    Forked processes do not hold the lock: a child that outlives a killed server must not block the next server.
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
            self._descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
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

    def close(self) -> None:
        """Release the lock. Idempotent."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    __del__ = close


_held: WeakSet[FolderLock] = WeakSet()


def _forget() -> None:
    for lock in list(_held):
        lock.close()


os.register_at_fork(after_in_child=_forget)
