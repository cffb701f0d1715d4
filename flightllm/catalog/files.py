"""Files and folders as tables; only the administrator names their paths."""

from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa
from datafusion import SessionContext
from datafusion.catalog import Table

from flightllm.catalog.contexts import scratch_context
from flightllm.catalog.errors import mapped_error
from flightllm.catalog.memory import plain_schema
from flightllm.errors import ConfigError, UnsupportedError

FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


@dataclass(frozen=True, slots=True)
class FileTable:
    """A table over files, its columns as stored, and the plain columns clients see."""

    table: Table
    stored: pa.Schema
    schema: pa.Schema

    @property
    def needs_cast(self) -> bool:
        """Tell whether columns must be cast while they are read."""
        return bool(self.stored.types != self.schema.types)


def open_file(name: str, path: Path) -> FileTable:
    """Open a Parquet, CSV, TSV, JSON lines or Arrow file, or a folder of files of one of these kinds.

    Raises:
        ConfigError: the path does not exist, its format is unknown, a folder is empty or mixed, or it cannot be read.
    """
    suffix = _suffix(name, path)
    location = f"{path.absolute()}/" if path.is_dir() else str(path.absolute())
    try:
        return _opened(location, suffix)
    except UnsupportedError as error:
        raise ConfigError(f"table {name!r}: {path}: {error}") from error
    except Exception as error:  # DataFusion raises bare exceptions; whatever it was, the file cannot be read
        hint = _json_hint(path) if FORMATS[suffix] == "json" else ""
        raise ConfigError(
            f"table {name!r}: cannot read {path} as {FORMATS[suffix]}: {mapped_error(error)}{hint}"
        ) from error


def files_revision(path: Path) -> str:
    """Return a text that changes whenever a file, or one of a folder, is written anew; empty where it is gone."""
    files = sorted(file for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())
    digest = blake2b(digest_size=16)
    for file in files:
        status = file.stat()
        digest.update(f"{file.relative_to(path)}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest() if files else ""


def _suffix(name: str, path: Path) -> str:
    if not path.exists():
        raise ConfigError(f"table {name!r}: there is no file or folder {path}")
    valid = ", ".join(FORMATS)
    if path.is_file():
        if path.suffix.lower() not in FORMATS:
            raise ConfigError(f"table {name!r}: the format of {path} is unknown; its name must end in one of {valid}")
        return path.suffix
    files = [file for file in path.rglob("*") if file.is_file() and not file.name.startswith((".", "_"))]
    suffixes = sorted({file.suffix for file in files})
    if not any(suffix.lower() in FORMATS for suffix in suffixes):
        raise ConfigError(f"table {name!r}: the folder {path} has no file whose name ends in one of {valid}")
    if len(suffixes) > 1:
        raise ConfigError(f"table {name!r}: the folder {path} mixes {', '.join(suffixes)}: keep one format per folder")
    return suffixes[0]


def _opened(location: str, suffix: str) -> FileTable:
    context = scratch_context()
    _register(context, "t", location, suffix, None)
    table = context.catalog().schema("public").table("t")
    stored = table.schema
    if not stored.names:
        raise UnsupportedError("it holds no columns")
    schema = plain_schema(stored)
    if FORMATS[suffix.lower()] != "parquet" or schema.types == stored.types:
        return FileTable(table, stored, schema)
    _register(context, "plain", location, suffix, schema)
    return FileTable(context.catalog().schema("public").table("plain"), schema, schema)


def _register(context: SessionContext, name: str, location: str, suffix: str, schema: pa.Schema | None) -> None:
    match FORMATS[suffix.lower()]:
        case "parquet":
            context.register_parquet(name, location, file_extension=suffix, schema=schema)
        case "csv":
            delimiter = "\t" if suffix.lower() == ".tsv" else ","
            context.register_csv(name, location, file_extension=suffix, delimiter=delimiter, schema=schema)
        case "json":
            context.register_json(name, location, file_extension=suffix, schema=schema)
        case _:
            context.register_arrow(name, location, file_extension=suffix, schema=schema)


def _json_hint(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        array = file.read(64).lstrip().startswith(b"[")
    return "; it is one JSON array: write one object per line instead" if array else ""
