"""All vector indexes of one server, by name, under its data folder."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote
from weakref import WeakValueDictionary

import pyarrow as pa
import structlog

from flightllm.common.atomic_files import sync
from flightllm.errors import FlightLLMError, InvalidInputError, NotFoundError
from flightllm.storage.disk import disk_errors
from flightllm.vector.folder import IndexFolder
from flightllm.vector.manifest import IndexManifest

if TYPE_CHECKING:
    from flightllm.vector.build import IndexedRows
    from flightllm.vector.index import VectorIndex

_log = structlog.get_logger(__name__)
_WHAT = "vector indexes"
_PREFIX = "index-"
"""A prefix of folder names, so that a name such as `..` cannot mean another folder."""
LONGEST_NAME = 80
"""The most bytes of an index's name: quoting can triple them, and file systems limit a folder's name."""


class VectorIndexes:
    """Indexes by name. Safe to use from several threads; a search stays in the generation in which it began."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.RLock()
        self._folders: dict[str, IndexFolder] = {}
        self._current: dict[str, VectorIndex] = {}
        """The latest open generation of each index."""
        self._open: WeakValueDictionary[tuple[str, str], VectorIndex] = WeakValueDictionary()
        """All open generations that are in use, by name and generation."""
        self._whole: dict[str, tuple[str, tuple[int, ...]]] = {}
        """The checked indexes: the generation, and when each file was changed."""
        self._left: set[str] = set()
        """Dropped indexes whose files could not all be removed."""
        for path in folder.glob(f"{_PREFIX}*"):
            if path.is_dir():
                self._at(unquote(path.name.removeprefix(_PREFIX))).clean()
                with suppress(OSError):  # the folder is not empty
                    path.rmdir()
        self._warn_of_damage()

    def _warn_of_damage(self) -> None:
        """Log each index whose manifest or sizes of files are wrong; reading all bytes would make a start slow."""
        for name in self.names():
            try:
                self._at(name).check(self.manifest(name), sizes_only=True)
            except FlightLLMError as error:
                _log.warning("a vector index is damaged", index=name, error=str(error))

    def names(self) -> list[str]:
        """Return the names of all indexes, damaged ones included."""
        found = self._folder.glob(f"{_PREFIX}*/manifest.json")
        return sorted(unquote(path.parent.name.removeprefix(_PREFIX)) for path in found)

    def manifest(self, name: str) -> IndexManifest:
        """Return the manifest of an index.

        Raises:
            NotFoundError: there is no such index.
            InvalidInputError: its manifest is damaged.
        """
        known = len(name.encode("utf-8", "replace")) <= LONGEST_NAME
        try:
            manifest = self._folder_of(name).manifest() if known else None
        except InvalidInputError as error:
            raise InvalidInputError(
                f"the vector index {name!r} is damaged: {error}; CREATE OR REPLACE VECTOR INDEX builds it again"
            ) from error
        if manifest is None:
            raise missing(name)
        return manifest

    def check(self, name: str) -> None:
        """Check all files of an index; files that have not changed since they were checked are not read again.

        Raises:
            NotFoundError: there is no such index.
            InvalidInputError: a file is missing or damaged.
        """
        manifest, folder = self.manifest(name), self._at(name)
        try:
            folder.check(manifest, sizes_only=True)
            state = (manifest.generation, folder.times(manifest))
            if self._whole.get(name) != state:
                folder.check(manifest)
                self._whole[name] = state
        except InvalidInputError as error:
            raise self._damaged(name, error) from error

    def open(self, name: str, generation: str | None = None) -> VectorIndex:
        """Return an index; its first use opens and checks it.

        With `generation`, return that generation if it is still in use, even if there is a newer one.

        Raises:
            NotFoundError: there is no such index.
            InvalidInputError: a file of the index is missing or damaged.
            MissingExtraError: the extra `vector` is not installed.
        """
        from flightllm.vector.index import VectorIndex

        with self._lock:
            if generation is not None and (used := self._open.get((name, generation))) is not None:
                return used
            manifest = self.manifest(name)
            current = self._current.get(name)
            while current is None or current.manifest.generation != manifest.generation:
                try:
                    self._at(name).check(manifest)
                    current = VectorIndex.open(self._at(name), manifest)
                    self._current[name] = self._open[name, manifest.generation] = current
                except InvalidInputError as error:
                    before, manifest = manifest, self.manifest(name)
                    if (
                        manifest.generation == before.generation
                    ):  # if they differ, the index was replaced while it was read
                        raise self._damaged(name, error) from error
            return current

    @contextmanager
    def changing(self, name: str) -> Iterator[None]:
        """Lock an index until the block ends, so that no other statement or process changes it.

        Raises:
            InvalidInputError: another statement is changing the index.
            LimitExceededError: the disk is full.
            InternalError: the folder cannot be written for another reason.
        """
        with self._locked(name):
            self._remove_left()
            yield

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Hold the lock file of an index; see `changing` for the errors."""
        with disk_errors(_WHAT):
            if not self._folder.is_dir():
                self._folder.mkdir(parents=True, exist_ok=True)
                sync(self._folder.parent)
            locked = (self._folder / f"{_PREFIX}{quote(name, safe='')}.lock").open("wb")
        with locked as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InvalidInputError(
                    f"another statement is building, refreshing or dropping the vector index {name!r}; try again"
                    " when it has finished"
                ) from error
            yield

    def build(self, manifest: IndexManifest, schema: pa.Schema, parts: Iterable[IndexedRows]) -> IndexManifest:
        """Build an index, in place of an earlier one of the same name; see `vector.build.build`.

        Raises:
            LimitExceededError: the disk is full.
            InternalError: the folder cannot be written for another reason.
        """
        from flightllm.vector.build import build

        with disk_errors(_WHAT):
            built = build(self._at(manifest.name), manifest, schema, parts)
        counts = {"rows": built.rows, "failed": built.failed, "dimensions": built.dimensions}
        _log.info("vector index built", index=built.name, **counts)
        return built

    def extend(self, manifest: IndexManifest, schema: pa.Schema, parts: Iterable[IndexedRows]) -> IndexManifest:
        """Add rows to an index; `manifest` describes the new state; see `vector.build.extend`.

        Raises:
            LimitExceededError: the disk is full.
            InternalError: the folder cannot be written for another reason.
        """
        from flightllm.vector.build import extend

        with disk_errors(_WHAT):
            extended = extend(self._at(manifest.name), self.manifest(manifest.name), manifest, schema, parts)
        _log.info("vector index extended", index=extended.name, rows=extended.rows, failed=extended.failed)
        return extended

    def drop(self, name: str) -> None:
        """Remove an index, damaged or not.

        Raises:
            NotFoundError: there is no such index.
            InternalError: the folder cannot be written.
        """
        with self._lock, disk_errors(_WHAT):
            if name not in self.names():
                self.manifest(name)
            self._current.pop(name, None)
            self._at(name).remove()
            if self._at(name).path.exists():
                self._left.add(name)

    def _remove_left(self) -> None:
        """Try again to remove the files of dropped indexes, unless a new index has the same name."""
        for name in tuple(self._left):
            with suppress(FlightLLMError), self._locked(name):
                if name not in self.names():
                    self._at(name).remove()
                    if self._at(name).path.exists():
                        continue
                self._left.discard(name)

    def _at(self, name: str) -> IndexFolder:
        with self._lock:
            return self._folders.setdefault(name, self._folder_of(name))

    def _folder_of(self, name: str) -> IndexFolder:
        return self._folders.get(name) or IndexFolder(self._folder / (_PREFIX + quote(name, safe="")))

    def _damaged(self, name: str, error: InvalidInputError) -> InvalidInputError:
        return InvalidInputError(
            f"the vector index {name!r} is damaged: {error}; REFRESH VECTOR INDEX or CREATE OR REPLACE builds it again"
        )


def missing(name: str) -> NotFoundError:
    """Return the error that an index does not exist, or that the user cannot read its table."""
    return NotFoundError(f"there is no vector index {name!r}: see SHOW VECTOR INDEXES")
