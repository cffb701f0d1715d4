"""Titles, comments and blank lines around a table are left out with a note."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from flightllm.errors import InvalidInputError
from flightllm.file_formats.csv_files import convert_csv
from flightllm.file_formats.options import NOTHING_SAID, CsvOptions

ROWS = [{"a": 1, "b": 2.5, "c": "x"}, {"a": 3, "b": 4.0, "c": "y"}]
TABLE = "a,b,c\n1,2.5,x\n3,4,y\n"


def converted(folder: Path, content: str, known: CsvOptions = NOTHING_SAID) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows of a file, and the notes."""
    (folder / "t.csv").write_text(content)
    notes = convert_csv([folder / "t.csv"], known, folder / "rows.parquet")
    return pq.read_table(folder / "rows.parquet").to_pylist(), notes


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("above", "line", "shown"),
    [
        ("Sales of 2024\n", 2, "Sales of 2024"),
        ("Sales of 2024\n\n", 3, "Sales of 2024"),
        ("Sales\nmade: by hand\n\n", 4, "Sales"),
        ("Sales,,\n,,\n", 3, "Sales"),
        ("Sales,,\n", 2, "Sales"),
        ("# written by a program\n# twice\n", 3, "# written by a program"),
        ("#\n# x\n#\n\n", 5, "#"),
        ("\n\nSales\n", 4, "Sales"),
        ("# x\nSales\n", 3, "# x"),
        (",,\n# x\n", 3, "# x"),
    ],
)
def test_lines_above_the_table(tmp_path: Path, mark: str, end: str, above: str, line: int, shown: str) -> None:
    """The table is found below them, and one note says where it begins."""
    content = (above + TABLE).replace("\n", end).replace(",", mark)
    found, notes = converted(tmp_path, content)
    assert found == ROWS
    assert notes == [f"the table begins in line {line}; the lines above it are left out: {shown}"]


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_a_title_above_two_columns_without_names(tmp_path: Path, mark: str) -> None:
    """The first row stays a row, because the column below it has values of its type."""
    found, notes = converted(tmp_path, f"Births\nä{mark}1978\nb{mark}1979\n")
    assert found == [{"column1": "ä", "column2": 1978}, {"column1": "b", "column2": 1979}]
    assert notes[0] == "the table begins in line 2; the lines above it are left out: Births"


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_a_title_with_a_comma(tmp_path: Path, mark: str) -> None:
    """A comma in a title does not make it the first row of a table."""
    found, notes = converted(tmp_path, "Orders, by hand\n\n" + TABLE.replace(",", mark))
    assert found == ROWS
    assert notes == ["the table begins in line 3; the lines above it are left out: Orders, by hand"]


@pytest.mark.parametrize("mark", [",", ";", "|"])
@pytest.mark.parametrize(("above", "line"), [(",,\n", 2), ("  \n,,\n,,\n", 4)])
def test_empty_cells_above_the_table(tmp_path: Path, mark: str, above: str, line: int) -> None:
    """Lines of delimiters only are left out with a note, because a row of NULLs can have this form."""
    found, notes = converted(tmp_path, (above + TABLE).replace(",", mark))
    assert found == ROWS
    assert notes == [f"the table begins in line {line}; the lines above it are left out: empty cells"]


def test_commas_in_single_quotes_above_no_table(tmp_path: Path) -> None:
    """A header with fewer commas than the rows is no title, if single quotes surround the further ones."""
    found, notes = converted(tmp_path, "a,b,c\n1,'x, y',2\n3,'z, w',4\n")
    assert found == [{"a": 1, "b": "x, y", "c": 2}, {"a": 3, "b": "z, w", "c": 4}]
    assert notes == []


def test_a_comment_with_the_delimiter(tmp_path: Path) -> None:
    """A comment is left out, also if it has as many delimiters as the table."""
    found, notes = converted(tmp_path, f"# one, two, three\n{TABLE}")
    assert found == ROWS
    assert notes == ["the table begins in line 2; the lines above it are left out: # one, two, three"]


@pytest.mark.parametrize("above", ["\n", "  \n\n", "sep=,\n"])
def test_lines_without_words(tmp_path: Path, above: str) -> None:
    """Lines without words are left out without a note."""
    assert converted(tmp_path, above + TABLE) == (ROWS, [])


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("#chrom,start\nchr1,5\n", [{"#chrom": "chr1", "start": 5}]),
        ("id,#tag\n1,# a\n", [{"id": 1, "#tag": "# a"}]),
        ("tag,n\n#a,1\n#b,2\n", [{"tag": "#a", "n": 1}, {"tag": "#b", "n": 2}]),
        ("text\nhello\nbye\n", [{"text": "hello"}, {"text": "bye"}]),
        ('text\n"a, b"\n"c, d"\n', [{"text": "a, b"}, {"text": "c, d"}]),
        ("a,b\n1,x\n2,y\n", [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]),
        ("name,,\nx,1,2\n", None),
        ('a,b\n1,"\n# no comment\n"\n', [{"a": 1, "b": "\n# no comment\n"}]),
    ],
)
def test_no_titles(tmp_path: Path, content: str, rows: list[dict[str, Any]] | None) -> None:
    """A line that belongs to the table stays, also if it begins with #."""
    found, notes = converted(tmp_path, content)
    assert rows is None or found == rows
    assert not [note for note in notes if "left out" in note]


def test_comments_inside(tmp_path: Path) -> None:
    """Comments between rows are left out with one note; lines of the table's width stay."""
    found, notes = converted(tmp_path, "a,b\n1,x\n# one\n# two\n#3,y\n")
    assert found == [{"a": "1", "b": "x"}, {"a": "#3", "b": "y"}]
    assert notes == ["lines inside the table that begin with # are left out as comments"]


def test_options(tmp_path: Path) -> None:
    """`skip` counts lines, and `comment` names the mark, also of lines as wide as the table."""
    options = CsvOptions.of({"skip": "2", "comment": "%"})
    assert converted(tmp_path, "x,y\nz\n% a,b\na,b\n1,2\n%3,4\n", options)[0] == [{"a": 1, "b": 2}]
    for wrong in ({"skip": "two"}, {"comment": "//"}, {"dates": "myd"}):
        with pytest.raises(InvalidInputError, match="expected"):
            CsvOptions.of(wrong)


def test_lines_are_counted_from_the_start(tmp_path: Path) -> None:
    """An error names the line of the file, titles included."""
    with pytest.raises(InvalidInputError, match="line 205 has 2 columns"):
        converted(tmp_path, "Sales\n\n" + TABLE.partition("\n")[0] + "\n" + "1,2,3\n" * 201 + "4,5\n")


def test_options_come_back_from_json() -> None:
    """Options that a list of tables stores are the same when it is read."""
    given = CsvOptions.of({"types": "zip=text, n: double", "nulls": "NA,-", "dates": "%d.%m.%Y", "skip": "3"})
    assert given.types == (("zip", "text"), ("n", "double"))
    assert CsvOptions.of_json(json.loads(json.dumps(given.as_json()))) == given
    with pytest.raises(InvalidInputError, match="a type is one of text"):
        CsvOptions.of({"types": "zip=postcode"})


@pytest.mark.parametrize("content", [" , \n", " , \n , \n", " ; ; \n"])
def test_rows_of_blanks_alone(tmp_path: Path, content: str) -> None:
    """A file with blanks and delimiters alone is an error like a file with an empty first line."""
    with pytest.raises(InvalidInputError, match=r"t\.csv"):
        converted(tmp_path, content)
