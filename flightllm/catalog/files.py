"""Files and folders as tables; only admins name their paths."""

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from pathlib import Path, PurePosixPath
from stat import S_ISREG

import pyarrow as pa
import pyarrow.parquet as pq
from datafusion import SessionContext
from datafusion.catalog import Table
from datafusion.options import CsvReadOptions

from flightllm.catalog.entries import ConvertedSource
from flightllm.catalog.memory import plain_schema
from flightllm.datafusion.contexts import scratch_context
from flightllm.datafusion.errors import is_panic, plain_text
from flightllm.errors import ConfigError, InvalidInputError, UnsupportedError
from flightllm.file_formats.compressed import COMPRESSIONS, ending
from flightllm.file_formats.documents import ENDINGS as DOCUMENTS
from flightllm.file_formats.options import CsvOptions
from flightllm.file_formats.origins import keys_of
from flightllm.file_formats.paths import FORMATS, base_of, data_files, files_of, readable
from flightllm.file_formats.rows import DAMAGED, CsvRows
from flightllm.storage.objects import ObjectStores

_SEPARATORS = (";", "\t", "|", ",")
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")
_LOOKED_AT = 50
"""The number of rows that decide whether a text file is a table."""
_NO_FILES = "Cannot infer schema from an empty location"


@dataclass(frozen=True, slots=True)
class FileTable:
    """A table over files, with its columns as stored and the plain columns that clients see."""

    table: Table
    stored: pa.Schema
    schema: pa.Schema
    source: ConvertedSource | None = None
    """The Parquet copy of the files, if they are read through a copy."""
    notes: tuple[str, ...] = ()
    """Notes about the files for the administrator, one line each."""

    @property
    def needs_cast(self) -> bool:
        """Return whether columns must be cast while they are read."""
        return bool(self.stored.types != self.schema.types)

    @property
    def separator(self) -> str | None:
        """Return the character that seems to separate columns of CSV files that were read as one column, or None."""
        only = self.stored.names[0] if len(self.stored) == 1 else ""
        return next((mark for mark in _SEPARATORS if mark in only), None)

    def check_separator(self, csv: CsvOptions) -> None:
        """Refuse CSV files that were read as one column, unless `csv` names the delimiter.

        Raises:
            InvalidInputError: the name of the only column has a likely delimiter.
        """
        if csv.delimiter is None and self.separator is not None:
            raise InvalidInputError(
                f"it was read as one column, {self.schema.names[0]!r}, but {self.separator!r} seems to separate the"
                " columns; name the delimiter by the option delimiter"
            )


@dataclass(frozen=True, slots=True)
class ConvertedTable(FileTable):
    """A table whose files are read through a Parquet copy."""

    source: ConvertedSource

    @property
    def copy(self) -> Path:
        """Return the path of the Parquet copy, the only file of its folder."""
        return Path(self.source.location)


def open_file(name: str, path: Path, csv: CsvOptions | None = None) -> FileTable:
    """Open a Parquet, CSV, TSV, JSON lines or Arrow file, or a folder of files of one of these kinds.

    Raises:
        ConfigError: the path does not exist or cannot be read, its format is unknown, or a folder is empty or mixed.
    """
    try:
        return opened_file(path, file_suffix(path), csv)
    except InvalidInputError as error:
        raise ConfigError(f"table {name!r}: {error}") from error


def opened_file(path: Path, suffix: str, csv: CsvOptions | None = None) -> FileTable:
    """Open a file or folder of files whose names end in `suffix`.

    Raises:
        InvalidInputError: the file or folder cannot be read.
    """
    location = f"{path.absolute()}/" if path.is_dir() else str(path.absolute())
    try:
        return _opened(scratch_context(), location, suffix, csv)
    except UnsupportedError as error:
        raise InvalidInputError(f"{path}: {error}") from error
    except Exception as error:  # DataFusion raises bare exceptions; in each case the file cannot be read
        raise InvalidInputError(f"cannot read {path} as {_format(suffix)}: {plain_text(error)}") from error
    except BaseException as error:
        if is_panic(error):
            raise _damaged(str(path), _format(suffix)) from error
        raise


def open_address(
    address: str, stores: ObjectStores, suffixes: Sequence[str] = tuple(FORMATS), csv: CsvOptions | None = None
) -> tuple[FileTable, str]:
    """Open one object, or all objects below an address that ends in `/`; also return the ending of their names.

    Raises:
        InvalidInputError: no object's name ends in one of `suffixes`, or the objects cannot be read.
    """
    ending = PurePosixPath(address).suffix
    if not address.endswith("/"):
        suffixes = [suffix for suffix in suffixes if suffix == ending.lower()]
    csv = csv or CsvOptions()
    for suffix in suffixes:
        try:
            found = _opened(stores.register(scratch_context()), address, suffix, csv)
        except UnsupportedError:  # no object has this ending
            continue
        except Exception as error:  # DataFusion raises bare exceptions; in each case the object cannot be read
            if _NO_FILES in str(error):
                continue
            raise InvalidInputError(f"cannot read {address} as {FORMATS[suffix]}: {plain_text(error)}") from error
        except BaseException as error:
            if is_panic(error):
                raise _damaged(address, FORMATS[suffix]) from error
            raise
        return found, suffix
    raise InvalidInputError(
        f"{address}: there is no object whose name ends in one of {', '.join(suffixes or FORMATS)}; end the address of"
        " a folder with /"
    )


def known_table(
    location: str, suffix: str, schema: pa.Schema, stores: ObjectStores, csv: CsvOptions | None = None
) -> Table:
    """Return a table over files with known columns; reads nothing."""
    context = stores.register(scratch_context())
    _register(context, "t", location, suffix, schema, csv)
    return context.catalog().schema("public").table("t")


def files_revision(path: Path, *, any_name: bool = False) -> str:
    """Return a text that changes whenever a file, or a data file of a folder, is rewritten; empty if it is gone.

    With `any_name`, files with other endings count as well.

    Raises:
        InvalidInputError: the server cannot reach the path.
    """
    digest, found, base = blake2b(digest_size=16), False, base_of(path)
    try:
        for file in files_of(path, any_name=any_name):
            with suppress(FileNotFoundError):  # the path is gone, perhaps only since the check above
                status = file.stat()
                if S_ISREG(status.st_mode):
                    found = True
                    digest.update(f"{file.relative_to(base)}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    except OSError as error:
        raise unreachable(error) from error
    return digest.hexdigest() if found else ""


def unreachable(error: OSError) -> InvalidInputError:
    """Return the error that the server cannot reach a file; the message hides the path from clients."""
    return InvalidInputError(f"the server cannot reach it: {error.strerror or type(error).__name__}")


def file_suffix(path: Path) -> str:
    """Return the ending of the name of a file, or of the names of all files of a folder.

    Raises:
        InvalidInputError: the path or folder has no file, the format is unknown, or a folder mixes several.
    """
    if not path.exists():
        raise InvalidInputError(f"there is no file or folder {path}")
    valid = ", ".join(FORMATS)
    if path.is_file():
        if not readable(path):
            raise InvalidInputError(f"the format of {path} is unknown; its name must end in one of {valid}")
        return _suffix(path)
    suffixes = sorted({_suffix(file) for file in data_files(path)})
    if not suffixes:
        raise InvalidInputError(f"the folder {path} has no file whose name ends in one of {valid}")
    if len(suffixes) > 1:
        raise InvalidInputError(f"the folder {path} mixes {', '.join(suffixes)}: keep one format per folder")
    return suffixes[0]


def _is_local_folder(location: str) -> bool:
    return location.endswith("/") and "://" not in location


def partitions(folder: Path) -> list[tuple[str, pa.DataType]]:
    """Return the columns that the names of subfolders hold, as in `year=2024/month=1/rows.parquet`.

    A column of whole numbers without leading zeros is of numbers, else of texts. It is empty unless all files
    agree, and if a file has such a column itself.
    """
    found = [keys_of(file.relative_to(folder)) for file in data_files(folder)]
    names = {tuple(keys) for keys in found}
    if len(names) != 1 or not found[0] or _has_columns(data_files(folder)[0], found[0]):
        return []
    whole = {name for name in found[0] if all(_WHOLE.fullmatch(keys[name]) for keys in found)}
    return [(name, pa.int64() if name in whole else pa.string()) for name in found[0]]


def _has_columns(file: Path, names: Collection[str]) -> bool:
    with suppress(OSError, pa.ArrowException):
        return file.suffix.lower() == ".parquet" and not {*pq.read_schema(file).names}.isdisjoint(names)
    return False


def is_document(file: Path) -> bool:
    """Return whether a file is a text such as Markdown, and not a table."""
    kind = ending(file)
    return kind in DOCUMENTS and (kind != ".txt" or not is_delimited(file))


def is_folder_of_documents(folder: Path) -> bool:
    """Return whether a folder has documents and no tables; other files do not count."""
    files = data_files(folder, any_name=True)
    texts = [file for file in files if ending(file) in DOCUMENTS]
    if not texts or any(readable(file) and file not in texts for file in files):
        return False
    return any(is_document(file) for file in texts)


def is_delimited(file: Path) -> bool:
    """Return whether the start of a text file has rows of at least two columns."""
    try:
        with CsvRows(file, CsvOptions()) as rows:
            return len(rows.first) > 1 and bool(list(islice(rows, _LOOKED_AT)))
    except (*DAMAGED, InvalidInputError):
        return False


def _format(suffix: str) -> str:
    """Return the format of files with this ending, such as `.jsonl.gz`."""
    return FORMATS[ending(Path(f"file{suffix}"))]


def _suffix(file: Path) -> str:
    return "".join(file.suffixes[-2:]) if file.suffix.lower() in COMPRESSIONS else file.suffix


def _opened(context: SessionContext, location: str, suffix: str, csv: CsvOptions | None = None) -> FileTable:
    _register(context, "t", location, suffix, None, csv)
    table = context.catalog().schema("public").table("t")
    stored = table.schema
    if not stored.names:
        raise UnsupportedError("it has no columns")
    schema = plain_schema(stored)
    if _format(suffix) != "parquet" or schema.types == stored.types:
        return FileTable(table, stored, schema)
    _register(context, "plain", location, suffix, schema, csv)
    return FileTable(context.catalog().schema("public").table("plain"), schema, schema)


def _register(
    context: SessionContext,
    name: str,
    location: str,
    suffix: str,
    schema: pa.Schema | None,
    csv: CsvOptions | None = None,
) -> None:
    match _format(suffix):
        case "parquet":
            has_keys = _is_local_folder(location) and (csv is None or csv.hive_partitioning is not False)
            keys = partitions(Path(location)) if has_keys else []
            plain = schema and pa.schema([field for field in schema if field.name not in {name for name, _ in keys}])
            context.register_parquet(
                name, location, table_partition_cols=keys, file_extension=suffix, schema=plain or None
            )
        case "csv":
            context.register_csv(name, location, options=_csv_options(suffix, schema, csv or CsvOptions()))
        case "json":
            packed = COMPRESSIONS.get(Path(suffix).suffix.lower() or suffix.lower())
            context.register_json(name, location, file_extension=suffix, schema=schema, file_compression_type=packed)
        case _:
            context.register_arrow(name, location, file_extension=suffix, schema=schema)


def _csv_options(suffix: str, schema: pa.Schema | None, csv: CsvOptions) -> CsvReadOptions:
    """Return the options with which DataFusion reads the CSV files of an object store.

    Raises:
        UnsupportedError: DataFusion cannot read files with these options.
    """
    if csv.encoding not in {None, "utf-8", "utf-8-sig"}:
        raise UnsupportedError(
            "CSV files in an object store are read as UTF-8: copy the files to a folder, or write them as UTF-8"
        )
    if csv.quote == "":
        raise UnsupportedError(
            "CSV files in an object store are read with quotes: name the quote character, or copy the files to a folder"
        )
    if csv.decimal == ",":
        raise UnsupportedError("CSV files in an object store are read with decimal points: copy the files to a folder")
    return CsvReadOptions(
        has_header=csv.header is not False,
        delimiter=csv.delimiter or ("\t" if suffix.lower() == ".tsv" else ","),
        quote=csv.quote or '"',
        escape=csv.escape,
        newlines_in_values=True,
        schema=schema,
        file_extension=suffix,
        null_regex=f"^({'|'.join(map(re.escape, ('', *csv.null)))})$" if csv.null else None,
    )


def _damaged(place: str, kind: str) -> InvalidInputError:
    """Return the error for a file at which DataFusion panics, for example because of a wrong length in it."""
    return InvalidInputError(f"cannot read {place} as {kind}: it is damaged; write the file again")
