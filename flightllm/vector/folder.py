"""The folder of one index: a manifest and the generation that it names, replaced in one step."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import structlog

from flightllm.common.atomic_files import move_aside, sync, write_atomically
from flightllm.errors import InvalidInputError
from flightllm.storage.digest import index_digest_of
from flightllm.vector.manifest import IndexManifest

_MANIFEST = "manifest.json"
_DROPPED = "dropped"
"""A file that tells that the index was dropped, while its other files are removed."""
_UNFINISHED = ".part"
"""The end of the name of a generation that is being written."""
SET_ASIDE = "set-aside"
"""The folder, beside those of the indexes, for files that no manifest names."""
_log = structlog.get_logger(__name__)


class IndexFolder:
    """The folder of an index. If the process dies at any point, the last complete index stays in place.

    A generation is a subfolder, named after the process that wrote it. Use one object per index and process.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def manifest(self) -> IndexManifest | None:
        """Return the manifest, or None if there is no index.

        Raises:
            InvalidInputError: the manifest cannot be read.
        """
        try:
            text = (self.path / _MANIFEST).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInputError("its manifest cannot be read") from error
        return IndexManifest.of_json(text)

    def generation(self, manifest: IndexManifest) -> Path:
        """Return the folder with an index's files."""
        return self.path / manifest.generation

    def check(self, manifest: IndexManifest, *, sizes_only: bool = False) -> None:
        """Compare all files of an index, or only their sizes, with its manifest.

        Raises:
            InvalidInputError: a file is missing or damaged.
        """
        for name, (size, wanted) in manifest.files.items():
            path = self.generation(manifest) / name
            try:
                whole = path.is_file() and path.stat().st_size == size
                whole = whole and (sizes_only or index_digest_of(path) == wanted)
            except OSError as error:
                raise InvalidInputError(f"its file {name} cannot be read ({error.strerror})") from error
            if not whole:
                raise InvalidInputError(f"its file {name} is missing or damaged")

    def times(self, manifest: IndexManifest) -> tuple[int, ...]:
        """Return when each file of an index was last changed; 0 for a missing file."""
        paths = [self.generation(manifest) / name for name in manifest.files]
        return tuple(path.stat().st_mtime_ns if path.is_file() else 0 for path in paths)

    @contextmanager
    def writing(self) -> Iterator[Path]:
        """Yield a new folder for a generation; at the end it is removed, unless `commit` has made it the index."""
        path = self.path / f"{uuid4().hex}-{os.getpid()}{_UNFINISHED}"
        before = self._generation()
        try:
            path.mkdir(parents=True)
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
            after = self._generation()
            if None not in {before, after} and before != after:  # a manifest that cannot be read replaces nothing
                shutil.rmtree(self.path / str(before), ignore_errors=True)

    def commit(self, written: Path, manifest: IndexManifest) -> IndexManifest:
        """Make a folder of `writing` the index; return its completed manifest."""
        paths = sorted(path for path in written.rglob("*") if path.is_file() and not path.name.endswith(".lock"))
        for path in (
            *paths,
            *(path for path in written.rglob("*") if path.is_dir()),
            written,
            self.path,
            self.path.parent,
        ):
            sync(path)
        files = {str(path.relative_to(written)): (path.stat().st_size, index_digest_of(path)) for path in paths}
        whole = written.with_name(written.name.removesuffix(_UNFINISHED))
        complete = replace(manifest, generation=whole.name, files=files)
        before = self._text()
        written.replace(whole)
        try:
            write_atomically(self.path / _MANIFEST, complete.as_json().encode())
        except OSError:
            self._take_back(before)
            if self._generation() != whole.name:
                shutil.rmtree(whole, ignore_errors=True)
            raise
        with suppress(OSError):
            (self.path / _DROPPED).unlink(missing_ok=True)
        return complete

    def _generation(self) -> str | None:
        """Return the name of the present generation, or None if no manifest names one."""
        with suppress(InvalidInputError):
            manifest = self.manifest()
            return manifest.generation if manifest else None
        return None

    def _text(self) -> bytes | None:
        """Return the bytes of the manifest, or None if there is no manifest."""
        try:
            return (self.path / _MANIFEST).read_bytes()
        except FileNotFoundError:
            return None

    def _take_back(self, before: bytes | None) -> None:
        """Restore the former manifest: the new one can be in its place although writing it failed."""
        if before == self._text():
            return
        with suppress(OSError):  # if this fails, the new index stays, which is complete
            if before is None:
                (self.path / _MANIFEST).unlink(missing_ok=True)
            else:
                write_atomically(self.path / _MANIFEST, before)

    def clean(self) -> None:
        """Remove what unfinished builds and drops left; move aside other folders that no manifest names.

        Such a folder can be an index whose manifest was lost. With a damaged manifest, all files stay.
        """
        try:
            manifest = self.manifest()
        except InvalidInputError:
            return  # keep all files: they can help to repair the index
        if manifest is None and (self.path / _DROPPED).exists():
            self.remove()
            return
        for path in self.path.iterdir() if self.path.is_dir() else ():
            if not path.is_dir() or (manifest and path.name == manifest.generation) or _written_by_another(path.name):
                continue
            if path.name.endswith(_UNFINISHED):
                shutil.rmtree(path, ignore_errors=True)
            else:
                self._set_aside(path)

    def _set_aside(self, path: Path) -> None:
        indexes = self.path.parent
        with suppress(OSError):
            aside = move_aside(indexes, [path.relative_to(indexes)], indexes / SET_ASIDE)
            if aside.moved:
                _log.warning(
                    "no manifest names these files of a vector index, so they were moved: build the index again if it"
                    " is missing, then delete them",
                    folder=str(aside.folder),
                )
                return
        _log.warning("no manifest names these files of a vector index, but they cannot be moved", folder=str(path))

    def remove(self) -> None:
        """Remove the index. A crash leaves no half-removed index: the next start goes on to remove the rest.

        Files that cannot be removed stay in a folder without a manifest, which is not an index.
        """
        with suppress(FileNotFoundError):
            (self.path / _MANIFEST).replace(self.path / _DROPPED)
            sync(self.path)
        for path in list(self.path.iterdir()) if self.path.is_dir() else ():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(self.path, ignore_errors=True)


def damaged_indexes(indexes: Path) -> Iterator[str]:
    """Yield what is damaged in the folder of all indexes, by comparing all their files. A server can run meanwhile."""
    for path in sorted(indexes.glob("*/manifest.json")):
        found = _damage(IndexFolder(path.parent))
        if found and _damage(IndexFolder(path.parent)):  # not twice: a statement replaced the index meanwhile
            yield f"{path.parent}: {found}"


def _damage(index: IndexFolder) -> str:
    """Return what is wrong with an index, or ""."""
    try:
        if (manifest := index.manifest()) is not None:
            index.check(manifest)
    except InvalidInputError as error:
        return str(error)
    return ""


def _written_by_another(name: str) -> bool:
    """Return whether another process that still runs has named this folder."""
    number = name.removesuffix(_UNFINISHED).rpartition("-")[2]
    if not number.isdecimal() or int(number) == os.getpid():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
