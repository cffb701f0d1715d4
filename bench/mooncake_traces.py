"""Rows of files of the shape of Mooncake's traces: JSON lines, or Parquet (`*.parquet`), with a prompt in each row.

`timestamp` is in milliseconds, `input_length` and `output_length` in tokens, and `hash_ids` has one number for each
block of the prompt. Equal numbers mean equal blocks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

_END_OF_TIME: Final = 1e18


class TraceError(ValueError):
    """A file is not a trace. The text says which line or row, and what is expected there."""


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the place and the values of each row, in the file's order; a value can be missing or of another type.

    Raises:
        TraceError: the file is missing, has another shape, or has no prompts.
    """
    if not path.is_file():
        raise TraceError(f"{path}: there is no such file")
    expected = ", ".join(columns)
    place = None
    for place, row in _parquet(path, columns) if path.suffix == ".parquet" else _lines(path):
        if not isinstance(row, dict):
            raise TraceError(f"{path}, {place}: expected an object with {expected}")
        yield f"{path}, {place}", row
    if place is None:
        raise TraceError(f"{path}: the file has no prompts")


def seconds(where: str, row: Mapping[str, Any]) -> float:
    """Return a row's `timestamp` in seconds.

    Raises:
        TraceError: it is not a finite number.
    """
    at = row.get("timestamp")
    if isinstance(at, bool) or not isinstance(at, int | float) or not abs(at) < _END_OF_TIME:
        raise TraceError(f"{where}: timestamp is {at!r}; expected a number of milliseconds")
    return at / 1_000


def _parquet(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, object]]:
    try:
        with pq.ParquetFile(path) as file:
            missing = [name for name in columns if name not in file.schema_arrow.names]
            if missing:
                raise TraceError(f"{path}: no column {', '.join(missing)}; expected {', '.join(columns)}")
            numbers = count()
            for batch in file.iter_batches(columns=list(columns)):
                for row in batch.to_pylist():
                    yield f"row {next(numbers)}", row
    except (pa.ArrowException, OSError) as error:
        raise TraceError(f"{path}: not a Parquet file: {error}") from error


def _lines(path: Path) -> Iterator[tuple[str, object]]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield f"line {number}", _object(f"{path}, line {number}", line)
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: not a text of JSON lines, and not named *.parquet: {error}") from error


def _object(where: str, line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{where}: not JSON: {error}") from error
