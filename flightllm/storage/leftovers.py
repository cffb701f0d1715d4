"""Tidies the folder of tables: removes files that are surely left by this server, and moves other files aside."""

import os
import re
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import structlog

from flightllm.common.atomic_files import move_aside
from flightllm.storage import layout

_log = structlog.get_logger(__name__)


class Leftovers:
    """The files that were in the folder when the server locked it. Until `tidy` nothing is removed or moved."""

    def __init__(self, folder: Path) -> None:
        """Note what is there.

        Raises:
            OSError: the folder cannot be read.
        """
        self._folder = folder
        self._files = _names(folder / layout.FILES)
        self._reading = _names(folder / layout.READING)
        self._was_committing = _same(folder / layout.MANIFEST, folder / layout.PREVIOUS)
        """Whether the earlier run ended while it replaced the manifest: only then are both manifests one file.

        So files that waited for a manifest never got one.
        """
        self._manifests: Sequence[str] = [one for one in _names(folder) if layout.UNFINISHED_MANIFEST.fullmatch(one)]

    def tidy(self, named: Collection[str], replaced: Collection[str], *, whole: bool) -> None:
        """Remove what nobody can need, and move aside what no manifest names. Files of `named` stay.

        `replaced` are the files that the present manifest replaced, so that they can go. `whole` says that there is
        a manifest, and that all its files are there: links to former files are then of no use.
        """
        removed = self._end_statements(named, replaced)
        aside = [Path(layout.READING) / name for name in self._reading if not self._end_reading(name, whole=whole)]
        removed += sum(_removed(self._folder / name) for name in self._manifests)
        files = self._folder / layout.FILES
        strange = (one for one in self._files if one not in named and os.path.lexists(files / one))
        aside = [*(Path(layout.FILES) / name for name in strange), *aside]
        if removed:
            _log.info("files of unfinished statements removed", files=removed)
        if aside:
            self._move_aside(aside)
        self._files = self._reading = self._manifests = ()

    def _end_statements(self, named: Collection[str], replaced: Collection[str]) -> int:
        """Remove the data files of unfinished statements, and those that a change replaced; return their number."""
        files, removed = self._folder / layout.FILES, 0
        for name in self._files:
            if layout.UNFINISHED_FILE.fullmatch(name):
                final = name.removeprefix(layout.UNFINISHED)
                if self._was_committing and final not in named and _same(files / name, files / final):
                    removed += _removed(files / final)
                removed += _removed(files / name)
            elif name in replaced and name not in named:
                removed += _removed(files / name)
        return removed

    def _end_reading(self, name: str, *, whole: bool) -> bool:
        """Remove a folder through which the earlier run read tables; return whether it is gone."""
        folder = self._folder / layout.READING / name
        forms: tuple[re.Pattern[str], ...] = ()
        if layout.COPY_FOLDER.fullmatch(name):
            forms = (layout.COPIED,)
        elif layout.LINK_FOLDER.fullmatch(name):  # earlier versions also had copies in such folders
            forms = (layout.COPIED, layout.LINK)
        if not forms or folder.is_symlink():
            return False
        with suppress(OSError):
            for path in folder.iterdir():
                known = next((form for form in forms if form.fullmatch(path.name)), None)
                found = path.lstat()
                last = found.st_nlink < 2 and known is layout.LINK and not whole
                if known is not None and stat.S_ISREG(found.st_mode) and not last:
                    path.unlink()
            folder.rmdir()
        return not os.path.lexists(folder)

    def _move_aside(self, names: Sequence[Path]) -> None:
        try:
            aside = move_aside(self._folder, names, self._folder / layout.SET_ASIDE)
        except OSError as error:
            _log.warning(
                "files that no table has are left in place, because they cannot be moved aside",
                files=len(names), folder=str(self._folder), error=error.strerror,
            )  # fmt: skip
            return
        _log.warning(
            "files that no table has were moved aside: look whether you need them, then delete the folder",
            folder=str(aside.folder), files=len(aside.moved), bytes=sum(map(_size, aside.moved)),
            left_in_place=[str(path.relative_to(self._folder)) for path in aside.stayed],
        )  # fmt: skip


def _names(folder: Path) -> Sequence[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else ()


def _size(path: Path) -> int:
    return sum(one.lstat().st_size for one in (path, *_below(path)) if one.is_file() and not one.is_symlink())


def _below(path: Path) -> Iterator[Path]:
    return path.rglob("*") if path.is_dir() and not path.is_symlink() else iter(())


def _same(one: Path, other: Path) -> bool:
    with suppress(OSError):
        return one.samefile(other)
    return False


def _removed(path: Path) -> bool:
    """Remove a regular file; return whether it is gone. The next start tries again."""
    with suppress(OSError):
        if stat.S_ISREG(path.lstat().st_mode):
            path.unlink()
            return True
    return False
