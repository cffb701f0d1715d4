"""Files and folders as tables; only the administrator names their paths."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path, PurePosixPath

import pyarrow as pa
from datafusion import SessionContext
from datafusion.catalog import Table

from flightllm.catalog.contexts import scratch_context
from flightllm.catalog.errors import plain_text
from flightllm.catalog.memory import plain_schema
from flightllm.errors import ConfigError, InvalidInputError, UnsupportedError
from flightllm.storage.objects import ObjectStores

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
_SEPARATORS = (";", "\t", "|")
_NO_FILES = "Cannot infer schema from an empty location"


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

    @property
    def separator(self) -> str | None:
        """Return what seems to separate columns that are read as one, if these are CSV files; None as a rule."""
        only = self.stored.names[0] if len(self.stored) == 1 else ""
        return next((mark for mark in _SEPARATORS if mark in only), None)


def open_file(name: str, path: Path) -> FileTable:
    """Open a Parquet, CSV, TSV, JSON lines or Arrow file, or a folder of files of one of these kinds.

    Raises:
        ConfigError: the path does not exist, its format is unknown, a folder is empty or mixed, or it cannot be read.
    """
    try:
        return opened_file(path, file_suffix(path))
    except InvalidInputError as error:
        raise ConfigError(f"table {name!r}: {error}") from error


def opened_file(path: Path, suffix: str) -> FileTable:
    """Open a file or folder of files whose names end in `suffix`.

    Raises:
        InvalidInputError: it cannot be read.
    """
    location = f"{path.absolute()}/" if path.is_dir() else str(path.absolute())
    try:
        return _opened(scratch_context(), location, suffix)
    except UnsupportedError as error:
        raise InvalidInputError(f"{path}: {error}") from error
    except Exception as error:  # DataFusion raises bare exceptions; whatever it was, the file cannot be read
        hint = _json_hint(path) if FORMATS[suffix.lower()] == "json" else ""
        raise InvalidInputError(
            f"cannot read {path} as {FORMATS[suffix.lower()]}: {plain_text(error)}{hint}"
        ) from error


def open_address(address: str, stores: ObjectStores, suffixes: Sequence[str] = tuple(FORMATS)) -> tuple[FileTable, str]:
    """Open an object of a store, or all below an address that ends in `/`; return how their names end, too.

    Raises:
        InvalidInputError: there is none whose name ends in one of `suffixes`, or it cannot be read.
    """
    ending = PurePosixPath(address).suffix
    if not address.endswith("/"):
        suffixes = [suffix for suffix in suffixes if suffix == ending.lower()]
    for suffix in suffixes:
        try:
            found = _opened(stores.register(scratch_context()), address, suffix)
        except UnsupportedError:  # no object has this ending
            continue
        except Exception as error:  # DataFusion raises bare exceptions; whatever it was, it cannot be read
            if _NO_FILES in str(error):
                continue
            raise InvalidInputError(f"cannot read {address} as {FORMATS[suffix]}: {plain_text(error)}") from error
        return found, suffix
    raise InvalidInputError(
        f"{address}: there is no object whose name ends in one of {', '.join(suffixes or FORMATS)}; end the address of"
        " a folder with /"
    )


def known_table(location: str, suffix: str, schema: pa.Schema, stores: ObjectStores) -> Table:
    """Return a table over files whose columns are known; reads nothing."""
    context = stores.register(scratch_context())
    _register(context, "t", location, suffix, schema)
    return context.catalog().schema("public").table("t")


def files_revision(path: Path) -> str:
    """Return a text that changes whenever a file, or one of a folder, is written anew; empty where it is gone."""
    files = sorted(file for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())
    digest = blake2b(digest_size=16)
    for file in files:
        status = file.stat()
        digest.update(f"{file.relative_to(path)}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest() if files else ""


def file_suffix(path: Path) -> str:
    """Return how the name of a file, or of all files of a folder, ends.

    Raises:
        InvalidInputError: there is none, the format is unknown, or a folder mixes several.
    """
    if not path.exists():
        raise InvalidInputError(f"there is no file or folder {path}")
    valid = ", ".join(FORMATS)
    if path.is_file():
        if path.suffix.lower() not in FORMATS:
            raise InvalidInputError(f"the format of {path} is unknown; its name must end in one of {valid}")
        return path.suffix
    files = [file for file in path.rglob("*") if file.is_file() and not file.name.startswith((".", "_"))]
    suffixes = sorted({file.suffix for file in files})
    if not any(suffix.lower() in FORMATS for suffix in suffixes):
        raise InvalidInputError(f"the folder {path} has no file whose name ends in one of {valid}")
    if len(suffixes) > 1:
        raise InvalidInputError(f"the folder {path} mixes {', '.join(suffixes)}: keep one format per folder")
    return suffixes[0]


def _opened(context: SessionContext, location: str, suffix: str) -> FileTable:
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
