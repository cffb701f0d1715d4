"""The folder of one index: a manifest and the generation that it names, replaced in one step."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from flightllm.common.atomic_files import sync, write_atomically
from flightllm.errors import InvalidInputError
from flightllm.vector.manifest import IndexManifest, digest

_MANIFEST = "manifest.json"


class IndexFolder:
    """The folder of an index. If the process dies at any point, the last complete index stays in place.

    A generation is a subfolder, named after the process that wrote it. Use one object per index and process.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._written: set[str] = set()
        """The generations that this process is writing."""

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
            whole = path.is_file() and path.stat().st_size == size
            if not whole or not (sizes_only or digest(path) == wanted):
                raise InvalidInputError(f"its file {name} is missing or damaged")

    @contextmanager
    def writing(self) -> Iterator[Path]:
        """Yield a new folder for a generation; at the end it is removed, unless `commit` has made it the index."""
        path = self.path / f"{uuid4().hex}-{os.getpid()}"
        self._written.add(path.name)
        try:
            path.mkdir(parents=True)
            yield path
        finally:
            self._written.discard(path.name)
            with suppress(OSError):  # files that cannot be removed do no harm
                self.clean()

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
        files = {str(path.relative_to(written)): (path.stat().st_size, digest(path)) for path in paths}
        complete = replace(manifest, generation=written.name, files=files)
        before = self._text()
        try:
            write_atomically(self.path / _MANIFEST, complete.as_json().encode())
        except OSError:
            self._take_back(before)
            raise
        return complete

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
        """Remove the generations that the manifest does not name and that no process is writing."""
        try:
            manifest = self.manifest()
        except InvalidInputError:
            return  # keep all files: they can help to repair the index
        kept = {*self._written, *([manifest.generation] if manifest else [])}
        for path in self.path.iterdir() if self.path.is_dir() else ():
            if path.is_dir() and path.name not in kept and not _written_by_another(path.name):
                shutil.rmtree(path, ignore_errors=True)

    def remove(self) -> None:
        """Remove the index; remove the manifest first, and sync it, so that a crash leaves no half-removed index.

        Files that cannot be removed stay in a folder without a manifest, which is not an index.
        """
        with suppress(FileNotFoundError):
            (self.path / _MANIFEST).unlink()
            sync(self.path)
        shutil.rmtree(self.path, ignore_errors=True)


def _written_by_another(name: str) -> bool:
    """Return whether another process that still runs has named this folder."""
    number = name.rpartition("-")[2]
    if not number.isdecimal() or int(number) == os.getpid():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
