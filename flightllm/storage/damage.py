"""A list of tables that is missing or damaged: how this is found, and what the administrator can do."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from flightllm.errors import ConfigError
from flightllm.storage.layout import FILES, MANIFEST, PREVIOUS, READING, is_data
from flightllm.storage.made import mark_of
from flightllm.storage.sealed import check_version, unsealed

_T = TypeVar("_T")
VERSION = 1
"""The format of the list of tables."""
_UNSEALED_KEYS = frozenset({"version", "revision", "schemas", "entries"})
"""The keys of a list that an earlier version wrote without a checksum."""


def list_of_tables(folder: Path) -> str | None:
    """Return the text of the list of tables, or None if the folder never had tables.

    Raises:
        ConfigError: the list cannot be read; or it is missing, but data files, the previous list or the mark beside
            the folder are there.
    """
    path = folder / MANIFEST
    try:
        return path.read_bytes().decode()
    except FileNotFoundError as error:
        if path.is_symlink():
            raise damaged(folder, "it is a link to nothing") from error
    except (OSError, UnicodeDecodeError) as error:
        raise damaged(folder, "it cannot be read") from error
    found = _tables_without_list(folder)
    if not found and not mark_of(folder).exists():
        return None
    if path.exists():  # a server made its first table meanwhile
        return list_of_tables(folder)
    if found:
        raise ConfigError(
            f"the list of tables {path} is missing, but {found}. Nothing was changed. {_ways_out(folder)}"
        )
    mark = mark_of(folder).path
    raise ConfigError(
        f"the folder of tables {folder} is {'empty' if folder.is_dir() else 'missing'}, but {mark.name} tells that"
        " there were tables. Nothing was changed. Mount the folder's disk if it has its own; or restore the data folder"
        f" from a backup; or delete {mark} to begin without tables"
    )


def check_places(folder: Path) -> None:
    """Check that the folders inside a folder of tables are folders, unless they are missing.

    Raises:
        ConfigError: one of them is something else, or cannot be read.
    """
    for path, advice in (
        (folder / FILES, "Restore the data folder from a backup"),
        (folder / READING, "Move it away, because the server makes a folder of this name"),
    ):
        try:
            if os.path.lexists(path):
                os.scandir(path).close()
        except OSError as error:
            raise ConfigError(
                f"the folder {path} cannot be read: {error.strerror}. Nothing was changed. {advice}, or correct the"
                " owner and the rights of the folder"
            ) from error


def parsed(text: str) -> dict[str, Any]:
    """Return the document of a list of tables.

    Raises:
        ValueError: it is damaged.
        NewerVersionError: a newer version of FlightLLM wrote it.
    """
    document = unsealed(text, _UNSEALED_KEYS)
    check_version(f"tables/{MANIFEST}", document["version"], VERSION)
    return document


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A data file as a list of tables names it. `sha256` is empty if an earlier version wrote the file."""

    table: str
    bytes: int
    sha256: str


def files_of(document: Mapping[str, Any]) -> dict[str, NamedFile]:
    """Return the data files that a list of tables names, by name."""
    found = [(entry, file) for entry in document["entries"] for file in entry.get("files", ())]
    return {
        str(file["name"]): NamedFile(
            f"{entry['schema']}.{entry['name']}", int(file["bytes"]), str(file.get("sha256", ""))
        )
        for entry, file in found
    }


def named_files(folder: Path, text: str | None) -> dict[str, NamedFile]:
    """Return the data files that the text of a folder's list names, or no files for the text None.

    Raises:
        ConfigError: the list is damaged, or a newer version wrote it.
    """
    return {} if text is None else _read(folder, text, files_of)


def owners_of(folder: Path, text: str | None) -> set[str]:
    """Return the owners of all tables and views of a list; a folder without a list has no owners.

    Raises:
        ConfigError: the list is damaged, or a newer version wrote it.
    """
    return set() if text is None else _read(folder, text, lambda list_: {str(one["owner"]) for one in list_["entries"]})


def _read(folder: Path, text: str, read: Callable[[Mapping[str, Any]], _T]) -> _T:
    try:
        return read(parsed(text))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise damaged(folder, "it is cut short, or its bytes have changed on the disk") from error


def damaged(folder: Path, reason: str) -> ConfigError:
    """Return the error that the list of tables is damaged; the message says what to do."""
    return ConfigError(
        f"the list of tables {folder / MANIFEST} is damaged: {reason}. Nothing was changed. {_ways_out(folder)}"
    )


def _tables_without_list(folder: Path) -> str:
    """Return what shows that a folder without a list had tables, or ""."""
    if (folder / PREVIOUS).exists():
        return f"{PREVIOUS} is there"
    count = sum(is_data(path.name) for path in (folder / FILES).rglob("*"))
    return f"{folder / FILES} has data files ({count})" if count else ""


def _ways_out(folder: Path) -> str:
    before = _previous(folder)
    middle = f"or put {PREVIOUS} in its place: {before}; " if before else ""
    mark = mark_of(folder)
    away = f"move the folder {folder} and the file {mark.path} away" if mark.exists() else f"move {folder} away"
    return f"Restore the data folder from a backup; {middle}or {away} to start without tables"


def _previous(folder: Path) -> str:
    """Return what the previous list would bring back, or "" if it is of no use."""
    try:
        document = parsed((folder / PREVIOUS).read_bytes().decode())
        files = files_of(document)
        count = len(document["entries"])
    except Exception:  # noqa: BLE001 - it is only offered if it is whole
        return ""
    gone = [name for name in files if not (folder / FILES / name).is_file()]
    files_there = f"{len(gone)} of its files are missing" if gone else "all of its files are there"
    return f"it is the state before the last change, with {count} tables and views, and {files_there}"
