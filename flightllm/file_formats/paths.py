"""The files of a path: of a folder, or of a pattern such as `data/*.csv`."""

from pathlib import Path

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


def data_files(folder: Path, *, any_name: bool = False) -> list[Path]:
    """Return the data files of a folder and its subfolders, sorted by path, without hidden files."""
    found = [file for file in sorted(folder.rglob("*")) if file.is_file() and (any_name or readable(file))]
    return [file for file in found if not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)]


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
