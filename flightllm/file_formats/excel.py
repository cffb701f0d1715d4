"""Converts a sheet of a spreadsheet to a Parquet file."""

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from flightllm.errors import InvalidInputError, MissingExtraError
from flightllm.file_formats.columns import column_names
from flightllm.file_formats.kinds import ColumnKinds, cast

if TYPE_CHECKING:
    from python_calamine import CalamineWorkbook

ENDINGS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
_SHOWN = 40
"""The most characters of a cell that a note shows."""
_NARROW = 2
"""With so few columns, a row above texts can be the names, also if one of its cells is empty."""
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

    The first row that is not empty has the column names; titles above it are left out. Numbers that are stored as texts
    are numbers. A column with values of other types becomes a text column.

    Raises:
        MissingExtraError: the extra `excel` is not installed.
        InvalidInputError: the spreadsheet cannot be read, or has no such sheet.
    """
    book = _opened(path)
    if sheet and sheet not in book.sheet_names:
        raise InvalidInputError(f"it has no sheet {sheet!r}; its sheets are {', '.join(book.sheet_names)}")
    found = book.get_sheet_by_name(sheet or book.sheet_names[0])
    rows = found.to_python(skip_empty_area=True)
    if not rows:
        raise InvalidInputError(f"its sheet {sheet or book.sheet_names[0]!r} is empty")
    top, left = found.start or (0, 0)
    first = _first_row(rows)
    notes = []
    if first:
        title = next(_text(cell) for row in rows for cell in row if cell != "")
        notes.append(f"the table begins in row {top + first + 1}; the rows above it are left out: {title[:_SHOWN]}")
    header = [_text(cell) for cell in rows[first]]
    names = column_names(header)
    numbered = list(enumerate(rows, top + 1))[first + 1 :]
    body = [(number, row) for number, row in numbered if any(cell != "" for cell in row)]
    arrays = dict[str, pa.Array]()
    for place, name in enumerate(names):
        column = _Column([row[place] for _, row in body])
        arrays[name] = column.array()
        if column.note:
            notes.append(column.note.format(name=name, cell=f"{_letters(left + place)}{body[column.odd][0]}"))
    pq.write_table(pa.table(arrays), target, compression="zstd")
    changed = [f"{old or 'no name'} → {new}" for old, new in zip(header, names, strict=True) if old.strip() != new]
    return [*notes, f"renamed columns: {', '.join(changed)}"] if changed else notes


def _first_row(rows: Sequence[Sequence[Cell]]) -> int:
    """Return the place of the row with the names: 0, or the first complete row below titles of one cell each."""
    filled = [sum(cell != "" for cell in row) for row in rows]
    place = next((place for place, count in enumerate(filled) if count > 1), 0)
    named = place and all(isinstance(cell, str) and cell != "" for cell in rows[place])
    below = [cell for row in rows[place + 1 :] for cell in row if cell != ""]
    typed = any(not isinstance(cell, str) for cell in below)
    sure = named and (typed or len(rows[place]) > _NARROW or 0 in filled[:place])
    return place if sure and below else 0


def _letters(place: int) -> str:
    """Return the letters of a column: 0 gives `A`, 26 gives `AA`."""
    letters = ""
    while place >= 0:
        letters = chr(ord("A") + place % 26) + letters
        place = place // 26 - 1
    return letters


def _opened(path: Path) -> "CalamineWorkbook":
    try:
        import python_calamine
    except ImportError as error:
        raise MissingExtraError("reading spreadsheets", "excel") from error
    try:
        return python_calamine.CalamineWorkbook.from_path(str(path))
    except (python_calamine.CalamineError, OSError) as error:
        raise InvalidInputError(f"it cannot be read as a spreadsheet: {error}") from error


class _Column:
    """The cells of a column. `note` says what was guessed; it has places for the column's name and the odd cell's."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._values = [None if cell == "" else _plain(cell) for cell in cells]
        self.note = ""
        self.odd = 0
        """The place of the first value that differs from the others."""

    def array(self) -> pa.Array:
        """Return the values with their common type; values of several types become texts."""
        values, kinds = self._values, {type(value) for value in self._values if value is not None}
        if kinds == {date, datetime}:
            values = [datetime.combine(value, time()) if type(value) is date else value for value in values]
            kinds = {datetime}
        if kinds == {int, float}:
            return pa.array(values, pa.float64())
        if str in kinds and kinds <= {str, int, float} and len(kinds) > 1:
            numbers = self._numbers()
            if numbers is not None:
                return numbers
        if len(kinds) == 1 and timedelta not in kinds:
            return pa.array(values)
        if len(kinds) > 1:
            self._find_odd()
            shown = _text(self._values[self.odd] or "")[:_SHOWN].replace("{", "{{").replace("}", "}}")
            self.note = f"the column {{name}} is of texts, because the cell {{cell}} differs from the others: {shown}"
        return pa.array([None if value is None else _text(value) for value in values], pa.string())

    def _numbers(self) -> pa.Array | None:
        """Return numbers, some of which are stored as texts; None if a text is not a number."""
        stored = ColumnKinds()
        stored.see(pa.array([value for value in self._values if isinstance(value, str)], pa.string()))
        if stored.filled and stored.type not in {pa.int64(), pa.float64()}:
            return None
        self.odd = next(place for place, value in enumerate(self._values) if isinstance(value, str))
        what = f"texts such as {', '.join(sorted(stored.missing))}" if stored.missing else "numbers stored as texts"
        read = "NULL" if stored.missing and not stored.filled else "numbers"
        self.note = f"{what} are read as {read} in the column {{name}}, first in the cell {{cell}}"
        texts = pa.array([value if isinstance(value, str) else None for value in self._values], pa.string())
        parsed = cast(texts, stored.kind).to_pylist() if stored.filled else [None] * len(self._values)
        values = [parsed[place] if isinstance(value, str) else value for place, value in enumerate(self._values)]
        whole = all(isinstance(value, int) for value in values if value is not None)
        return pa.array(values, pa.int64() if whole else pa.float64())

    def _find_odd(self) -> None:
        kinds = [str if value is None else type(value) for value in self._values]
        filled = [kind for kind, value in zip(kinds, self._values, strict=True) if value is not None]
        usual = max(dict.fromkeys(filled), key=filled.count)
        self.odd = next(
            place
            for place, (kind, value) in enumerate(zip(kinds, self._values, strict=True))
            if value is not None and kind is not usual
        )


def _plain(cell: Cell) -> Cell:
    """Return a cell's value; whole numbers become integers, because spreadsheets store them as floats."""
    return int(cell) if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53 else cell


def _text(cell: Cell) -> str:
    return str(_plain(cell))
