"""Columns with what the places of files say: the file's name, and keys such as `year=2024`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from flightllm.errors import InvalidInputError
from flightllm.file_formats.options import CsvOptions
from flightllm.file_formats.table_writer import table_writer

FILENAME = "filename"
_NULL = "__HIVE_DEFAULT_PARTITION__"
"""The value of a key that is NULL, as Hive and Spark write it."""
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")


@dataclass(frozen=True, slots=True)
class Origin:
    """A column with one value for each file."""

    name: str
    values: Sequence[str | None]

    @property
    def type(self) -> pa.DataType:
        """Return the type: whole numbers without leading zeros are numbers, other values texts."""
        given = [value for value in self.values if value is not None]
        is_whole = self.name != FILENAME and given and all(map(_WHOLE.fullmatch, given))
        return pa.int64() if is_whole else pa.string()

    def repeated(self, place: int, rows: int) -> pa.Array:
        """Return the value of the file at a place, for each of its rows."""
        return pa.repeat(pa.scalar(self.values[place], pa.string()), rows).cast(self.type)


def keys_of(path: Path) -> dict[str, str]:
    """Return the keys and values in the names of the folders of a path, as in `year=2024/month=1/rows.csv`."""
    pairs = (part.partition("=") for part in path.parent.parts)
    return {name: value for name, mark, value in pairs if mark and name}


def origins_of(files: Sequence[Path], base: Path, known: CsvOptions, taken: Sequence[str]) -> list[Origin]:
    """Return the columns that files get from their places below `base`; `taken` has the files' own columns.

    The option `filename` gives the column `filename`: the path below `base`. Folders such as `year=2024` give the
    column `year`, unless the option `hive_partitioning` is false, files have other keys, or a file has such a column.

    Raises:
        InvalidInputError: there is a column `filename` already.
    """
    names = {name.lower() for name in taken}
    found = list[Origin]()
    while known.hive_partitioning is not False and "=" in base.name:  # of a pattern, such as `year=2024/*.csv`
        base = base.parent
    keys = [keys_of(file.relative_to(base)) for file in files]
    shared = {tuple(one) for one in keys}
    if known.hive_partitioning is not False and len(shared) == 1:
        given = [name for name in keys[0] if name.lower() not in names]
        found += [Origin(name, [_value(one[name]) for one in keys]) for name in given]
    if known.filename:
        if FILENAME in names | {one.name.lower() for one in found}:
            raise InvalidInputError("filename: the files have a column of this name; leave the option out")
        found.append(Origin(FILENAME, [file.relative_to(base).as_posix() for file in files]))
    return found


def _value(written: str) -> str | None:
    return None if written == _NULL else unquote(written)


def add_origins(target: Path, rows: Sequence[int], origins: Sequence[Origin]) -> None:
    """Add columns to a Parquet file that has the rows of several files in order; `rows` has the number of each."""
    plain = target.with_suffix(".plain")
    target.rename(plain)
    place, left = 0, rows[0]
    try:
        with pq.ParquetFile(plain) as source:
            schema = pa.schema([*source.schema_arrow, *((one.name, one.type) for one in origins)])
            with table_writer(target, schema) as writer:
                for batch in source.iter_batches():
                    begin = 0
                    while begin < len(batch):
                        while not left:
                            place, left = place + 1, rows[place + 1]
                        part = batch.slice(begin, left)
                        begin, left = begin + len(part), left - len(part)
                        more = [one.repeated(place, len(part)) for one in origins]
                        writer.write_batch(pa.RecordBatch.from_arrays([*part.columns, *more], schema=schema))
    finally:
        plain.unlink()
