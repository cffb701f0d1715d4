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
from flightllm.vector.manifest import Manifest

if TYPE_CHECKING:
    from flightllm.vector.build import Part
    from flightllm.vector.index import VectorIndex

_log = structlog.get_logger(__name__)
_WHAT = "vector indexes"
_PREFIX = "index-"
"""So that no name, `..` for one, is another folder."""
LONGEST_NAME = 80
"""Bytes of an index's name: each may become three in the name of its folder, which file systems bound."""


class VectorIndexes:
    """Indexes by name. Safe to use from several threads; a search goes on in the generation that it began with."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.RLock()
        self._folders: dict[str, IndexFolder] = {}
        self._current: dict[str, VectorIndex] = {}
        """The latest generation of each index that was opened."""
        self._open: WeakValueDictionary[tuple[str, str], VectorIndex] = WeakValueDictionary()
        """By name and generation, those that somebody still uses too."""
        self._left: set[str] = set()
        """Dropped indexes of which some files could not be removed."""
        for path in folder.glob(f"{_PREFIX}*"):
            if path.is_dir():
                self._at(unquote(path.name.removeprefix(_PREFIX))).clean()
                with suppress(OSError):  # it is not empty
                    path.rmdir()

    def names(self) -> list[str]:
        """Return the names of all indexes, damaged ones too."""
        found = self._folder.glob(f"{_PREFIX}*/manifest.json")
        return sorted(unquote(path.parent.name.removeprefix(_PREFIX)) for path in found)

    def manifest(self, name: str) -> Manifest:
        """Return what an index consists of.

        Raises:
            NotFoundError: there is no such index.
            InvalidInputError: its manifest is damaged.
        """
        known = len(name.encode("utf-8", "replace")) <= LONGEST_NAME
        try:
            manifest = self._folder_of(name).manifest() if known else None
        except InvalidInputError as error:
            raise InvalidInputError(
                f"the vector index {name!r} is damaged: {error}; CREATE OR REPLACE VECTOR INDEX builds it anew"
            ) from error
        if manifest is None:
            raise missing(name)
        return manifest

    def check_sizes(self, name: str) -> None:
        """Check that the files of an index are there, as long as they were written.

        Raises:
            NotFoundError: there is no such index.
            InvalidInputError: a file is missing or damaged.
        """
        manifest = self.manifest(name)
        try:
            self._at(name).check(manifest, sizes_only=True)
        except InvalidInputError as error:
            raise self._damaged(name, error) from error

    def open(self, name: str, generation: str | None = None) -> VectorIndex:
        """Return an index, opened and checked when it is first asked for.

        With `generation` the one that somebody still uses, though there may be a newer one.

        Raises:
            NotFoundError: there is no such index.
            InvalidInputError: a file of it is missing or damaged.
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
                    if manifest.generation == before.generation:  # else it was replaced while it was read
                        raise self._damaged(name, error) from error
            return current

    @contextmanager
    def changing(self, name: str) -> Iterator[None]:
        """Keep other statements, those of other processes too, from changing an index until the block ends.

        Raises:
            InvalidInputError: another one is changing it.
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
                    f"the vector index {name!r} is being built, refreshed or dropped by another statement; try again"
                    " when that is done"
                ) from error
            yield

    def build(self, manifest: Manifest, schema: pa.Schema, parts: Iterable[Part]) -> Manifest:
        """Build an index, in place of the one of its name if there is one; see `vector.build.build`.

        Raises:
            LimitExceededError: the disk is full.
            InternalError: the folder cannot be written for another reason.
        """
        from flightllm.vector.build import build

        with disk_errors(_WHAT):
            built = build(self._at(manifest.name), manifest, schema, parts)
        _log.info("vector index built", index=built.name, rows=built.rows, dimensions=built.dimensions)
        return built

    def extend(self, manifest: Manifest, schema: pa.Schema, parts: Iterable[Part]) -> Manifest:
        """Add rows to an index, of which `manifest` says what is new; see `vector.build.extend`.

        Raises:
            LimitExceededError: the disk is full.
            InternalError: the folder cannot be written for another reason.
        """
        from flightllm.vector.build import extend

        with disk_errors(_WHAT):
            extended = extend(self._at(manifest.name), self.manifest(manifest.name), manifest, schema, parts)
        _log.info("vector index extended", index=extended.name, rows=extended.rows)
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
        """Try again to remove the files of dropped indexes, unless an index of the same name is there or is built."""
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
            f"the vector index {name!r} is damaged: {error}; REFRESH VECTOR INDEX or CREATE OR REPLACE builds it anew"
        )


def missing(name: str) -> NotFoundError:
    """Return the error that there is no index of a name, or none over a table that whoever asks may read."""
    return NotFoundError(f"there is no vector index {name!r}: see SHOW VECTOR INDEXES")
