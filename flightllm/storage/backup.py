"""Copy a data folder, in use or not; the copy is a valid data folder."""

import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TypeAlias
from uuid import uuid4

from flightllm.common.atomic_files import JOURNALS, sync
from flightllm.errors import InternalError, InvalidInputError
from flightllm.storage.damage import list_of_tables, named_files
from flightllm.storage.digest import digest_of, index_digest_of
from flightllm.storage.disk import of_one_file
from flightllm.storage.layout import FILES, MANIFEST, PREVIOUS, READING
from flightllm.storage.sealed import unsealed

_TABLES, _VECTORS, _KV_CACHES, _ANSWERS = "tables", "vectors", "kvstore", "answers.sqlite"
_HARMED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_AS_WHOM = "run the command as the server's user, because SQLite must be able to write beside this file"
_UNWRITABLE = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN})
_SQLITE = (".sqlite", ".sqlite-wal", ".sqlite-shm")
_INDEX_KEYS = frozenset(
    {
        "version", "name", "table", "column", "options", "model", "revision", "dimensions", "rows", "trained",
        "nulls", "source", "created", "generation", "files",
    }
)  # fmt: skip
"""The keys of an index's manifest that an earlier version wrote without a checksum."""
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
        ConfigError: the list of tables is missing or damaged, or a newer version wrote it.
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
            if not path.is_symlink():
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
            harmed += _copy_named(path, target / path.name, list_of_tables, _files_of_tables, digest_of)
            for unknown in sorted(one for one in path.iterdir() if not _is_of_tables(one.name)):
                harmed += _copy_unknown(unknown, target / path.name / unknown.name)
        elif path.name == _VECTORS and path.is_dir():
            for index in sorted(path.iterdir()):
                harmed += _copy_index(index, target / path.name / index.name)
        elif path.name == _KV_CACHES:  # not copied: large, and engines can compute them again
            continue
        elif path.suffix == _SQLITE[0] and not path.is_dir():
            harmed += _copy_database(path, target / path.name)
        elif path.is_dir() or path.suffix not in _SQLITE:
            harmed += _copy_unknown(path, target / path.name)
    return harmed


def _is_of_tables(name: str) -> bool:
    """Return whether a name in the folder of tables is one that the server gives, and not `set-aside`."""
    return name in {FILES, READING, MANIFEST, PREVIOUS} or _PASSING.match(name) is not None


def _copy_unknown(source: Path, target: Path) -> list[str]:
    """Copy a file or folder of which no list tells, without locks and files that are being written.

    Return what cannot be read.
    """
    harmed: list[str] = []
    for path in (source, *(sorted(source.rglob("*")) if source.is_dir() and not source.is_symlink() else ())):
        below = path.relative_to(source)
        if any(_PASSING.match(part) or part.endswith((".part", ".lock")) for part in (source.name, *below.parts)):
            continue
        if path.is_symlink() or path.is_file():
            copied = _copied(path, target / below, as_link=True)
            if not copied and os.path.lexists(path):  # else the server removed it meanwhile
                harmed.append(str(path))
        elif path.is_dir():
            (target / below).mkdir(parents=True, exist_ok=True)
            if not os.access(path, os.R_OK | os.X_OK):
                harmed.append(str(path))
    return harmed


def _copy_index(source: Path, target: Path) -> list[str]:
    """Copy the folder of a vector index, damaged or not; return the files that are damaged."""
    if not os.path.lexists(source / MANIFEST):
        return _copy_unknown(source, target)
    try:
        return _copy_named(source, target, _list_of_index, _files_of_index, index_digest_of)
    except _DamagedIndexError:  # its files can still help to repair it
        shutil.rmtree(target)
        return list(dict.fromkeys([str(source / MANIFEST), *_copy_unknown(source, target)]))


def _copy_named(
    source: Path,
    target: Path,
    read: Callable[[Path], str | None],
    named: Callable[[Path, str], _Files],
    digest: Callable[[Path], str],
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
    whole = {path for path in set(files) - set(gone) if _is_whole(target / path, *files[path], digest)}
    return [str(source / path) for path in files if path not in whole]


def _files_of_tables(source: Path, text: str) -> _Files:
    return {Path(FILES) / name: (file.bytes, file.sha256) for name, file in named_files(source, text).items()}


def _list_of_index(source: Path) -> str | None:
    try:
        return (source / MANIFEST).read_bytes().decode()
    except FileNotFoundError as error:
        if (source / MANIFEST).is_symlink():
            raise _DamagedIndexError from error
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise _DamagedIndexError from error


def _files_of_index(_: Path, text: str) -> _Files:
    try:
        manifest = unsealed(text, _INDEX_KEYS)
        generation = Path(str(manifest["generation"]))
        return {generation / name: (int(size), str(digest)) for name, (size, digest) in manifest["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise _DamagedIndexError from error


class _DamagedIndexError(Exception):
    """The manifest of a vector index cannot be read."""


def _is_whole(path: Path, size: int, wanted: str, digest: Callable[[Path], str]) -> bool:
    """Return whether a copied file has the bytes that were once written, as far as this is known."""
    return path.stat().st_size == size and wanted in {"", digest(path)}


def _copied(source: Path, target: Path, *, as_link: bool = False) -> bool:
    """Copy a file, or with `as_link` a link itself; return whether it exists and can be read."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copy2(source, target, follow_symlinks=not as_link)
    except shutil.SpecialFileError:
        return False
    except OSError as error:
        if not of_one_file(error) and _can_be_read(source):
            raise  # the target's disk fails
        target.unlink(missing_ok=True)
        return False
    return True


def _can_be_read(path: Path) -> bool:
    try:
        digest_of(path)
    except OSError:
        return False
    return True


def _copy_database(source: Path, target: Path) -> list[str]:
    """Copy an SQLite database, and change nothing beside it; the copy never has half of a change.

    Return the database if it is damaged and only has answers, which models can give again.
    """
    if not source.exists():  # a link to nothing
        return [str(source)]
    try:
        try:
            # A reader leaves a log that it made in place, but a writer removes it. No mode makes the database itself.
            _copy_pages(source, target, "mode=ro" if source.with_name(f"{source.name}-wal").exists() else "mode=rw")
        except sqlite3.OperationalError as error:
            if _code(error) not in _UNWRITABLE or _has_log(source):
                raise
            # SQLite needs a log to read, and cannot make one here. Without a log, the file has all changes.
            _copy_pages(source, target, "mode=ro&immutable=1")
        shutil.copymode(source, target)
    except sqlite3.Error as error:
        target.unlink(missing_ok=True)
        if source.name == _ANSWERS and _code(error) in _HARMED:
            return [str(source)]
        what = "move it away to back up the rest" if _code(error) in _HARMED else _AS_WHOM
        raise InvalidInputError(f"{source} cannot be read: {error}; {what}") from error
    return []


def _copy_pages(source: Path, target: Path, how: str) -> None:
    with (
        closing(sqlite3.connect(f"{source.absolute().as_uri()}?{how}", uri=True)) as old,
        closing(sqlite3.connect(target)) as new,
    ):
        old.backup(new)


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _has_log(source: Path) -> bool:
    """Return whether a log beside a database can have changes that the database lacks."""
    return any(source.with_name(source.name + end).exists() for end in JOURNALS)
