"""Copy a data folder, in use or not; the copy is a valid data folder."""

import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from flightllm.common.atomic_files import sync
from flightllm.errors import InternalError, InvalidInputError
from flightllm.storage.folder import FILES, MANIFEST

_TABLES, _VECTORS, _KV_CACHES = "tables", "vectors", "kvstore"
_SQLITE = (".sqlite", ".sqlite-wal", ".sqlite-shm")
_MOST_TRIES = 1_000
_Files: TypeAlias = Mapping[Path, int]
"""Paths relative to a folder, and the sizes of these files."""


def back_up(source: Path, target: Path) -> list[str]:
    """Copy the data folder `source` to `target`, which must not exist; return the files that were damaged already.

    A server can run meanwhile: the copies of tables, indexes and databases never have half of a change. KV caches are
    not copied, because engines can compute them again. `target` appears when it is complete and on disk.

    Raises:
        InvalidInputError: there is no such data folder, `target` exists or is inside it, or a database cannot be read.
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
        damaged = _copy(source, beside)
        for path in [beside, *beside.rglob("*")]:
            sync(path)
        beside.replace(target)
        sync(target.parent)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return damaged


def _copy(source: Path, target: Path) -> list[str]:
    target.mkdir(mode=0o700)
    damaged: list[str] = []
    for path in sorted(source.iterdir()):
        if path.name == _TABLES:
            damaged += _copy_named(path, target / path.name, _files_of_tables)
        elif path.name == _VECTORS:
            for index in sorted(one for one in path.iterdir() if (one / MANIFEST).exists()):
                damaged += _copy_named(index, target / path.name / index.name, _files_of_index)
        elif path.name == _KV_CACHES:  # not copied: large, and engines can compute them again
            continue
        elif path.suffix == _SQLITE[0]:
            _copy_database(path, target / path.name)
        elif path.is_dir():
            shutil.copytree(path, target / path.name, symlinks=True)
        elif (
            path.is_file() and path.suffix not in _SQLITE and not path.name.startswith(".")
        ):  # "." files are about to be renamed
            shutil.copy2(path, target / path.name)
    return damaged


def _copy_named(source: Path, target: Path, files_of: Callable[[Any], _Files]) -> list[str]:
    """Copy a manifest and the files that it names; return files that are missing or have another size.

    A named file never changes. So when a named file disappears, only the files of the newer manifest must be copied.
    """
    target.mkdir(parents=True)
    text, copied = "", set[Path]()
    for _ in range(_MOST_TRIES):
        try:
            before, text = text, (source / MANIFEST).read_text(encoding="utf-8")
        except FileNotFoundError:  # there is no table yet, or the index was dropped
            shutil.rmtree(target)
            return []
        files = _named(source, text, files_of)
        gone = [path for path in files if path not in copied and not _copied(source / path, target / path)]
        copied = (copied | set(files)) - set(gone)
        if not gone or text == before:
            break
    else:
        raise InternalError(f"{source} changes faster than it can be copied: try again when clients write less")
    for path in copied - set(files):
        (target / path).unlink()
    (target / MANIFEST).write_text(text, encoding="utf-8")
    whole = {path for path in set(files) - set(gone) if (target / path).stat().st_size == files[path]}
    return [str(source / path) for path in files if path not in whole]


def _named(source: Path, text: str, files_of: Callable[[Any], _Files]) -> _Files:
    try:
        return files_of(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInputError(
            f"{source / MANIFEST} is damaged, so nothing was copied: move {source} away to back up the rest"
        ) from error


def _files_of_tables(manifest: Any) -> _Files:
    files = [file for entry in manifest["entries"] for file in entry.get("files", ())]
    return {Path(FILES) / str(file["name"]): int(file["bytes"]) for file in files}


def _files_of_index(manifest: Any) -> _Files:
    generation = Path(str(manifest["generation"]))
    return {generation / name: int(size) for name, (size, _) in manifest["files"].items()}


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
