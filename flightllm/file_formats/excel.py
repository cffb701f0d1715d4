"""Converts a sheet of a spreadsheet to a Parquet file."""

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from flightllm.errors import InvalidInputError, MissingExtraError
from flightllm.file_formats.columns import column_names

if TYPE_CHECKING:
    from python_calamine import CalamineWorkbook

ENDINGS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
Cell = int | float | str | bool | time | date | datetime | timedelta


def sheets(path: Path) -> list[str]:
    """Return the names of a spreadsheet's sheets that are not empty.

    Raises:
        MissingExtraError: the extra `excel` is not installed.
        InvalidInputError: the spreadsheet cannot be read.
    """
    book = _opened(path)
    return [name for name in book.sheet_names if book.get_sheet_by_name(name).total_height]


def convert_sheet(path: Path, sheet: str, target: Path) -> list[str]:
    """Write the rows of a sheet to a Parquet file; return notes, one line each. An empty `sheet` means the first sheet.

    The first row that is not empty has the column names. A column with values of several types becomes a text column.

    Raises:
        MissingExtraError: the extra `excel` is not installed.
        InvalidInputError: the spreadsheet cannot be read, or has no such sheet.
    """
    book = _opened(path)
    if sheet and sheet not in book.sheet_names:
        raise InvalidInputError(f"it has no sheet {sheet!r}; its sheets are {', '.join(book.sheet_names)}")
    rows = book.get_sheet_by_name(sheet or book.sheet_names[0]).to_python(skip_empty_area=True)
    if not rows:
        raise InvalidInputError(f"its sheet {sheet or book.sheet_names[0]!r} is empty")
    header = [_text(cell) for cell in rows[0]]
    names = column_names(header)
    body = [row for row in rows[1:] if any(cell != "" for cell in row)]
    columns: list[Sequence[Cell]] = list(zip(*body, strict=True)) or [() for _ in header]
    arrays = {name: _column(cells) for name, cells in zip(names, columns, strict=True)}
    pq.write_table(pa.table(arrays), target, compression="zstd")
    changed = [f"{old or 'no name'} → {new}" for old, new in zip(header, names, strict=True) if old.strip() != new]
    return [f"renamed columns: {', '.join(changed)}"] if changed else []


def _opened(path: Path) -> "CalamineWorkbook":
    try:
        import python_calamine
    except ImportError as error:
        raise MissingExtraError("reading spreadsheets", "excel") from error
    try:
        return python_calamine.CalamineWorkbook.from_path(str(path))
    except (python_calamine.CalamineError, OSError) as error:
        raise InvalidInputError(f"it cannot be read as a spreadsheet: {error}") from error


def _column(cells: Sequence[Cell]) -> pa.Array:
    """Return cells as a column of their common type; cells of several types become texts."""
    values = [None if cell == "" else _plain(cell) for cell in cells]
    kinds = {type(value) for value in values if value is not None}
    if kinds == {date, datetime}:
        values = [datetime.combine(value, time()) if type(value) is date else value for value in values]
        kinds = {datetime}
    if kinds == {int, float}:
        return pa.array(values, pa.float64())
    if len(kinds) == 1 and timedelta not in kinds:
        return pa.array(values)
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _plain(cell: Cell) -> Cell:
    """Return a cell's value; whole numbers become integers, because spreadsheets store them as floats."""
    return int(cell) if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53 else cell


def _text(cell: Cell) -> str:
    return str(_plain(cell))
