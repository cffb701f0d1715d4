"""The folder of one index: a manifest and the generation that it names, replaced together or not at all."""

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
from flightllm.vector.manifest import Manifest, digest

_MANIFEST = "manifest.json"


class IndexFolder:
    """Where an index is kept. Any process that dies at any point leaves the last complete index in place.

    A generation is a folder named after the process that wrote it. One object per index and process.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._written: set[str] = set()
        """What this process writes now."""

    def manifest(self) -> Manifest | None:
        """Return the manifest, None where there is no index.

        Raises:
            InvalidInputError: there is one that cannot be read.
        """
        try:
            text = (self.path / _MANIFEST).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInputError("its manifest cannot be read") from error
        return Manifest.of_json(text)

    def generation(self, manifest: Manifest) -> Path:
        """Return the folder of an index's files."""
        return self.path / manifest.generation

    def check(self, manifest: Manifest, *, sizes_only: bool = False) -> None:
        """Read all files of an index, or look at their sizes, and compare them with its manifest.

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
        """Give a new folder to write a generation to; unless `commit` took it, it is removed at the end."""
        path = self.path / f"{uuid4().hex}-{os.getpid()}"
        self._written.add(path.name)
        try:
            path.mkdir(parents=True)
            yield path
        finally:
            self._written.discard(path.name)
            with suppress(OSError):  # the index is there, or is not, whatever else is left
                self.clean()

    def commit(self, written: Path, manifest: Manifest) -> Manifest:
        """Make what was written to a folder of `writing` the index; return its manifest, made complete."""
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
        """Return the manifest as it is written, None where there is none."""
        try:
            return (self.path / _MANIFEST).read_bytes()
        except FileNotFoundError:
            return None

    def _take_back(self, before: bytes | None) -> None:
        """Put the former manifest back, should the new one be in its place although it could not be brought to disk."""
        if before == self._text():
            return
        with suppress(OSError):  # else the new index stays: it is whole
            if before is None:
                (self.path / _MANIFEST).unlink(missing_ok=True)
            else:
                write_atomically(self.path / _MANIFEST, before)

    def clean(self) -> None:
        """Remove the generations that the manifest does not name and nobody writes any more."""
        try:
            manifest = self.manifest()
        except InvalidInputError:
            return  # whoever mends it may need what there is
        kept = {*self._written, *([manifest.generation] if manifest else [])}
        for path in self.path.iterdir() if self.path.is_dir() else ():
            if path.is_dir() and path.name not in kept and not _written_by_another(path.name):
                shutil.rmtree(path, ignore_errors=True)

    def remove(self) -> None:
        """Remove the index; the manifest goes first, on disk too, so that no half of the index is taken for one.

        What cannot be removed after that stays in a folder that is no index.
        """
        with suppress(FileNotFoundError):
            (self.path / _MANIFEST).unlink()
            sync(self.path)
        shutil.rmtree(self.path, ignore_errors=True)


def _written_by_another(name: str) -> bool:
    """Tell whether another process, one that still runs, wrote a folder of this name."""
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
