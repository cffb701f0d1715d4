"""Sheets become tables: numbers stay numbers, titles are left out, and a note names what was guessed."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flightllm.file_formats.excel import convert_sheet

pytest.importorskip("python_calamine", reason="the extra 'excel' is not installed")
openpyxl = pytest.importorskip("openpyxl")


def converted(folder: Path, rows: list[list[Any]], left: int = 0) -> tuple[pa.Table, list[str]]:
    """Return the table of a sheet and the notes; `left` empty columns are before the cells."""
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append([None] * left + row)
    book.save(folder / "t.xlsx")
    notes = convert_sheet(folder / "t.xlsx", "", folder / "rows.parquet")
    return pq.read_table(folder / "rows.parquet"), notes


def test_numbers_stored_as_texts(tmp_path: Path) -> None:
    """They are numbers with the others, and no row is lost."""
    rows: list[list[Any]] = [["n", "f"], *([number, number / 2] for number in range(1, 109))]
    rows[5][0], rows[7][1] = "99", "1,234.5"
    table, notes = converted(tmp_path, rows)
    assert (table.schema.types, table.num_rows) == ([pa.int64(), pa.float64()], 108)
    assert (table["n"][4].as_py(), table["f"][6].as_py()) == (99, 1234.5)
    assert notes == [
        "numbers stored as texts are read as numbers in the column n, first in the cell A6",
        "numbers stored as texts are read as numbers in the column f, first in the cell B8",
    ]


def test_a_text_among_numbers(tmp_path: Path) -> None:
    """The column is of texts, and the note names the cell; NA means NULL."""
    table, notes = converted(tmp_path, [["n", "m"], [1, 1], [2, "NA"], ["soon", 3]], left=27)
    assert table.to_pylist() == [{"n": "1", "m": 1}, {"n": "2", "m": None}, {"n": "soon", "m": 3}]
    assert notes == [
        "the column n is of texts, because the cell AB4 differs from the others: soon",
        "texts such as NA are read as NULL in the column m, first in the cell AC3",
    ]
    assert converted(tmp_path, [["n"], [1], ["007"]])[0]["n"].to_pylist() == ["1", "007"]


@pytest.mark.parametrize("titles", [[["Sales"]], [["Sales"], []], [["Sales"], ["of 2024"], []]])
def test_titles(tmp_path: Path, titles: list[list[Any]]) -> None:
    """Titles above the names are left out, and columns keep their types."""
    table, notes = converted(tmp_path, [*titles, ["a", "b"], [1, "x"], [2, "y"]])
    assert table.to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert notes == [f"the table begins in row {len(titles) + 1}; the rows above it are left out: Sales"]


def test_no_titles(tmp_path: Path) -> None:
    """A name beside an empty cell is no title."""
    table, _ = converted(tmp_path, [["a"], ["x", "y"], ["z", "w"]])
    assert table.num_rows == 2
    assert converted(tmp_path, [["a"], [1], [2]])[0].num_rows == 2
