"""The files of a path: of a folder, or of a pattern such as `data/*.csv`."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from sqlite3 import Error, connect

from flightllm.file_formats.compressed import COMPRESSIONS, ending
from flightllm.file_formats.parts import ENDINGS as PARTS

FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".dat": "csv",
    ".txt": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}

_TABLES = Path("tables/manifest.json")
"""The list of tables in a data folder."""
_CACHE = "SELECT 1 FROM sqlite_master WHERE name = 'answers'"
"""Returns a row for a cache of answers."""


def data_files(folder: Path, *, any_name: bool = False) -> list[Path]:
    """Return the data files of a folder and its subfolders, sorted by path.

    Hidden files are left out, and so are FlightLLM's own data folders below the folder.
    """
    paths = sorted(folder.rglob("*"))
    own = _data_folders(paths) - {folder, *folder.parents}
    found = [file for file in paths if file.is_file() and (any_name or readable(file)) and own.isdisjoint(file.parents)]
    return [file for file in found if not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)]


def is_data_folder(folder: Path) -> bool:
    """Return whether FlightLLM keeps its tables in a folder."""
    return (folder / _TABLES).is_file()


def _data_folders(paths: Sequence[Path]) -> set[Path]:
    """Return the data folders of FlightLLM whose lists of tables, or caches of answers, are among paths."""
    lists = {path.parents[1] for path in paths if path.parts[-2:] == _TABLES.parts}
    return lists | {path.parent for path in paths if path.name == "answers.sqlite" and _is_cache(path)}


def _is_cache(file: Path) -> bool:
    try:
        with closing(connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=0)) as database:
            return bool(database.execute(_CACHE).fetchall())
    except Error:  # a damaged file, or a file of another format
        return False


def is_pattern(path: Path) -> bool:
    """Return whether a path names files by a pattern, such as `data/*.csv`."""
    return any(mark in str(path) for mark in "*?[") and not path.exists()


def base_of(path: Path) -> Path:
    """Return the folder below which the files of a path are: of a pattern, the last folder without a mark."""
    if not is_pattern(path):
        return path if path.is_dir() else path.parent
    while any(mark in str(path) for mark in "*?["):
        path = path.parent
    return path


def files_of(path: Path, *, any_name: bool = False) -> list[Path]:
    """Return the files of a path: itself, those of a folder or of a pattern; with `any_name`, also other endings."""
    if is_pattern(path):
        base = base_of(path)
        found = sorted(file for file in base.glob(str(path.relative_to(base))) if file.is_file())
        return [file for file in found if any_name or readable(file)]
    if not path.is_dir():
        return [path]
    return data_files(path, any_name=any_name)


def readable(file: Path) -> bool:
    """Return whether the name of a file ends like a table's; only CSV and JSON lines can be compressed."""
    compressed = file.suffix.lower() in COMPRESSIONS
    kind = FORMATS.get(ending(file))
    return kind in ({"csv", "json"} if compressed else {*FORMATS.values()}) or file.name.lower().endswith(PARTS)
