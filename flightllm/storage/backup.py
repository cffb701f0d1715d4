"""Copy a data folder, in use or not; the copy is a valid data folder."""

import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeAlias
from uuid import uuid4

from flightllm.common.atomic_files import sync
from flightllm.errors import InternalError, InvalidInputError
from flightllm.storage.damage import list_of_tables, named_files
from flightllm.storage.digest import digest_of
from flightllm.storage.layout import FILES, MANIFEST, PREVIOUS, READING

_TABLES, _VECTORS, _KV_CACHES = "tables", "vectors", "kvstore"
_SQLITE = (".sqlite", ".sqlite-wal", ".sqlite-shm")
_PASSING = re.compile(r"\.lock$|\.(objects|manifest|access|damaged)\.[a-z.]+-")
"""Locks, and files that are about to be renamed."""
_MOST_TRIES = 1_000
_Files: TypeAlias = Mapping[Path, tuple[int, str]]
"""Paths relative to a folder; the sizes of these files, and their digests where they are known."""


def back_up(source: Path, target: Path) -> list[str]:
    """Copy the data folder `source` to `target`, which must not exist; return the files that were damaged already.

    A server can run meanwhile: the copies of tables, indexes and databases never have half of a change. KV caches are
    not copied, because engines can compute them again. Data files that no table has are not copied either.
    Files that the server set aside are copied.

    `target` appears when it is complete and on disk.

    Raises:
        InvalidInputError: there is no such data folder, `target` exists or is inside it, or a database cannot be read.
        ConfigError: the list of tables is missing or damaged.
        InternalError: tables change faster than they can be copied.
    """
    if not source.is_dir():
        raise InvalidInputError(f"there is no data folder {source}")
    if target.exists():
        raise InvalidInputError(f"{target} exists: name a folder that does not exist")
    if target.resolve().is_relative_to(source.resolve()):
        raise InvalidInputError(f"{target} is inside the data folder: choose a place on another disk")
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}-{uuid4().hex}")
    try:
        harmed = _copy(source, beside)
        for path in [beside, *beside.rglob("*")]:
            sync(path)
        beside.replace(target)
        sync(target.parent)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return harmed


def _copy(source: Path, target: Path) -> list[str]:
    list_of_tables(source / _TABLES)  # also if the folder is missing
    target.mkdir(mode=0o700)
    harmed: list[str] = []
    for path in sorted(source.iterdir()):
        if path.name == _TABLES:
            harmed += _copy_named(path, target / path.name, list_of_tables, _files_of_tables)
            for unknown in sorted(one for one in path.iterdir() if not _is_of_tables(one.name)):
                _copy_unknown(unknown, target / path.name / unknown.name)
        elif path.name == _VECTORS:
            for index in sorted(path.iterdir()):
                if not (index / MANIFEST).exists():
                    _copy_unknown(index, target / path.name / index.name)
                    continue
                harmed += _copy_named(index, target / path.name / index.name, _list_of_index, _files_of_index)
        elif path.name == _KV_CACHES:  # not copied: large, and engines can compute them again
            continue
        elif path.suffix == _SQLITE[0]:
            _copy_database(path, target / path.name)
        elif path.is_dir() or path.suffix not in _SQLITE:
            _copy_unknown(path, target / path.name)
    return harmed


def _is_of_tables(name: str) -> bool:
    """Return whether a name in the folder of tables is one that the server gives, and not `set-aside`."""
    return name in {FILES, READING, MANIFEST, PREVIOUS} or _PASSING.match(name) is not None


def _copy_unknown(source: Path, target: Path) -> None:
    """Copy a file or folder of which no list tells, without locks and files that are being written."""
    for path in (source, *(sorted(source.rglob("*")) if source.is_dir() and not source.is_symlink() else ())):
        below = path.relative_to(source)
        if any(_PASSING.match(part) or part.endswith((".part", ".lock")) for part in (source.name, *below.parts)):
            continue
        with suppress(FileNotFoundError):  # such as a file that the server removes meanwhile
            if path.is_symlink() or path.is_file():
                (target / below).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target / below, follow_symlinks=False)
            elif path.is_dir():
                (target / below).mkdir(parents=True, exist_ok=True)


def _copy_named(
    source: Path, target: Path, read: Callable[[Path], str | None], named: Callable[[Path, str], _Files]
) -> list[str]:
    """Copy a manifest and the files that it names; return files that are missing, or whose bytes have changed.

    A named file never changes. So when a named file disappears, only the files of the newer manifest must be copied.
    """
    target.mkdir(parents=True)
    text, copied = "", set[Path]()
    for _ in range(_MOST_TRIES):
        found = read(source)
        if found is None:  # there is no table yet, or the index was dropped
            shutil.rmtree(target)
            return []
        before, text = text, found
        files = named(source, text)
        gone = [path for path in files if path not in copied and not _copied(source / path, target / path)]
        copied = (copied | set(files)) - set(gone)
        if not gone or text == before:
            break
    else:
        raise InternalError(f"{source} changes faster than it can be copied: try again when clients write less")
    for path in copied - set(files):
        (target / path).unlink()
    (target / MANIFEST).write_text(text, encoding="utf-8")
    whole = {path for path in set(files) - set(gone) if _is_whole(target / path, *files[path])}
    return [str(source / path) for path in files if path not in whole]


def _files_of_tables(source: Path, text: str) -> _Files:
    return {Path(FILES) / name: (file.bytes, file.sha256) for name, file in named_files(source, text).items()}


def _list_of_index(source: Path) -> str | None:
    with suppress(FileNotFoundError):
        return (source / MANIFEST).read_text(encoding="utf-8")
    return None


def _files_of_index(source: Path, text: str) -> _Files:
    try:
        manifest = json.loads(text)
        generation = Path(str(manifest["generation"]))
        return {generation / name: (int(size), "") for name, (size, _) in manifest["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInputError(
            f"{source / MANIFEST} is damaged, so nothing was copied: move {source} away to back up the rest"
        ) from error


def _is_whole(path: Path, size: int, digest: str) -> bool:
    """Return whether a copied file has the bytes that were once written, as far as this is known."""
    return path.stat().st_size == size and digest in {"", digest_of(path)}


def _copied(source: Path, target: Path) -> bool:
    """Copy a file; return whether it exists."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copy2(source, target)
    except FileNotFoundError:
        return False
    return True


def _copy_database(source: Path, target: Path) -> None:
    """Copy an SQLite database; the copy never has half of a change."""
    try:
        with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
            old.backup(new)
        shutil.copymode(source, target)
    except sqlite3.Error as error:
        raise InvalidInputError(f"{source} cannot be read: {error}; move it away to back up the rest") from error
