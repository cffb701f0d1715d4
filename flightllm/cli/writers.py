"""Results for programs: CSV, TSV, JSON lines, Parquet, Excel.

Text formats show bytes as hexadecimal digits.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, Final

import pyarrow as pa

from flightllm.common.text import json_text, plain_text
from flightllm.connection.render import rows_of


@dataclass(frozen=True, slots=True)
class Writing:
    """How a file is written, as far as its form has a choice. Without a delimiter, the form's own is used."""

    delimiter: str | None = None
    header: bool = True
    compression: str = "zstd"


PLAIN: Final = Writing()
Writer = Callable[[pa.Schema, Iterable[pa.RecordBatch], IO[bytes], Writing], None]


def write_csv(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: IO[bytes], writing: Writing = PLAIN, *, mark: str = ","
) -> None:
    """Write CSV with a header; lists and structs become JSON text, and bytes and intervals become text."""
    from pyarrow.csv import CSVWriter, WriteOptions

    flat = pa.schema([pa.field(f.name, pa.string() if _needs_text(f.type) else f.type) for f in schema])
    options = WriteOptions(include_header=writing.header, delimiter=writing.delimiter or mark)
    with CSVWriter(out, flat, write_options=options) as writer:
        for batch in batches:
            columns = [_as_text(column) if _needs_text(column.type) else column for column in batch.columns]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=flat))


def write_tsv(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: IO[bytes], writing: Writing = PLAIN) -> None:
    """Write texts between tabs; see `write_csv`."""
    write_csv(schema, batches, out, writing, mark="\t")


def _needs_text(kind: pa.DataType) -> bool:
    """Return whether Arrow's CSV writer refuses the type, or reads its bytes as UTF-8."""
    types = pa.types
    tests = (types.is_nested, types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_interval)
    return any(test(kind) for test in tests)


def _as_text(column: pa.Array) -> pa.Array:
    text = json_text if pa.types.is_nested(column.type) else plain_text
    return pa.array((None if value is None else text(value) for value in column.to_pylist()), pa.string())


def write_json(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: IO[bytes], _writing: Writing = PLAIN) -> None:
    """Write one JSON object per line; dates, times, decimals and bytes become text."""
    for row in rows_of(batches):
        out.write(json_text(dict(zip(schema.names, row, strict=True))).encode() + b"\n")


def write_parquet(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: IO[bytes], writing: Writing = PLAIN
) -> None:
    """Write a Parquet file, batch by batch."""
    import pyarrow.parquet as pq  # slow to import

    with pq.ParquetWriter(out, schema, compression=writing.compression) as writer:
        for batch in batches:
            writer.write_batch(batch)


def write_excel(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: IO[bytes], writing: Writing = PLAIN) -> None:
    """Write an Excel workbook; see `spreadsheet.write_workbook`."""
    from flightllm.cli.spreadsheet import write_workbook  # its library is an extra

    write_workbook(schema, batches, out, header=writing.header)


WRITERS: Final[Mapping[str, Writer]] = MappingProxyType(
    {"csv": write_csv, "tsv": write_tsv, "json": write_json, "parquet": write_parquet, "xlsx": write_excel}
)
"""The forms for programs; each is also the ending of such a file's name."""
BINARY: Final = frozenset({"parquet", "xlsx"})
"""The forms that no terminal can show, and whose files have room for only one result."""
_ENDINGS: Final[Mapping[str, str]] = MappingProxyType(
    {"jsonl": "json", "ndjson": "json", "txt": "table", "": "table", "tab": "tsv", "pq": "parquet"}
)


def form_of(path: Path) -> str | None:
    """Return the form for the ending of a file's name, or None for an ending of no form."""
    ending = path.suffix.lower().removeprefix(".")
    form = _ENDINGS.get(ending, ending)
    return form if form in {"table", *WRITERS} else None
