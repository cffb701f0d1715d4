"""Dates, times and numbers in the notations that people write get their types, with a note."""

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flightllm.file_formats.csv_files import convert_csv
from flightllm.file_formats.options import NOTHING_SAID, CsvOptions


def column(
    folder: Path, cells: list[str], known: CsvOptions = NOTHING_SAID
) -> tuple[pa.DataType, list[Any], list[str]]:
    """Return the type and values of a column of a file, and the notes."""
    (folder / "t.tsv").write_text("x\ty\n" + "".join(f"{cell}\tz\n" for cell in cells))
    notes = convert_csv([folder / "t.tsv"], known, folder / "rows.parquet")
    found = pq.read_table(folder / "rows.parquet").column("x")
    return found.type, found.to_pylist(), notes


@pytest.mark.parametrize(
    ("cells", "values", "note"),
    [
        (["31/12/2012", "01/02/2012"], [dt.date(2012, 12, 31), dt.date(2012, 2, 1)], "read as day/month/year: x"),
        (
            ["3/30/12", "1/2/99"],
            [dt.date(2012, 3, 30), dt.date(1999, 1, 2)],
            "read as month/day/year with two-digit years from 1969 to 2068: x",
        ),
        (["2005-10-3", "2005-1-13"], [dt.date(2005, 10, 3), dt.date(2005, 1, 13)], "read as year-month-day: x"),
        (["2012/01/05", ""], [dt.date(2012, 1, 5), None], "read as year/month/day: x"),
        (["31.12.2012"], [dt.date(2012, 12, 31)], "read as day.month.year: x"),
        (
            ["05:40", "5:40", "23:10:05.5"],
            [dt.time(5, 40)] * 2 + [dt.time(23, 10, 5, 500000)],
            "read as times of day: x",
        ),
        (["5:40 pm", "12:00 AM"], [dt.time(17, 40), dt.time(0, 0)], "read as times of day: x"),
        (
            ["12/31/2012 5:40:00 PM", "1/2/2012"],
            [*map(dt.datetime.fromisoformat, ("2012-12-31 17:40", "2012-01-02"))],
            "read as month/day/year with a time: x",
        ),
        (["1,234", "12", "1,234,567"], [1_234, 12, 1_234_567], "commas separate thousands in: x"),
        (["1,234.5", "-12", "NA"], [1_234.5, -12.0, None], "commas separate thousands in: x"),
        (["1", "NA", "n/a"], [1, None, None], "NA, n/a means NULL in: x"),
    ],
)
def test_notations(tmp_path: Path, cells: list[str], values: list[Any], note: str) -> None:
    """The values are those that the texts mean, and a note says how they were read."""
    _, found, notes = column(tmp_path, cells)
    assert found == values
    assert note in notes


@pytest.mark.parametrize(
    "cells",
    [
        ["1/2/2012", "3/4/2012"],
        ["31/12/2012", "12/31/2012"],
        ["31/12/2012", "soon"],
        ["31/12/2012", "30-12-2012"],
        ["30/2/2012"],
        ["25:40"],
        ["13:00 PM"],
        ["5:60"],
        ["12,34"],
        ["0,123"],
        ["1,234", "x"],
        ["NA", "x"],
        ["1.2.3", "2.0.1"],
        ["192.168.1.1"],
    ],
)
def test_texts(tmp_path: Path, cells: list[str]) -> None:
    """Texts with several or no meanings stay as they are."""
    kind, found, _ = column(tmp_path, cells)
    assert (kind, found) == (pa.string(), cells)


def test_unclear_dates(tmp_path: Path) -> None:
    """If day and month can be in either order, a note says so, and an option decides."""
    cells = ["1/2/2012", "3/4/2012"]
    (note,) = column(tmp_path, cells)[2]
    assert note.startswith("dates stay texts, because day and month can be in either order")
    for order, month in (("dmy", 2), ("%m/%d/%Y", 1)):
        found = column(tmp_path, cells, CsvOptions.of({"dates": order}))
        assert found[:2] == (pa.date32(), [dt.date(2012, month, 3 - month), dt.date(2012, 2 + month, 5 - month)])


def test_commas_beside_semicolons(tmp_path: Path) -> None:
    """Where semicolons separate columns, `1,234` can be a decimal number; `1,234,567` cannot."""
    for cells, kind in ((["1,234"], pa.string()), (["1,234,567"], pa.int64())):
        (tmp_path / "t.csv").write_text("x;y\n" + "".join(f"{cell};z\n" for cell in cells))
        convert_csv([tmp_path / "t.csv"], NOTHING_SAID, tmp_path / "rows.parquet")
        assert pq.read_schema(tmp_path / "rows.parquet").field("x").type == kind


WRITTEN = {
    "%d/%m/%Y": "read as day/month/year: x",
    "%m/%d/%Y": "read as month/day/year: x",
    "%Y/%m/%d": "read as year/month/day: x",
    "%d.%m.%Y": "read as day.month.year: x",
    "%Y-%m-%d": None,
    "%m-%d-%y": "read as month-day-year with two-digit years from 1969 to 2068: x",
}


@pytest.mark.parametrize("pattern", WRITTEN)
@pytest.mark.parametrize("seed", range(10))
def test_days_of_a_generator(tmp_path: Path, pattern: str, seed: int) -> None:
    """Days in one notation come back as the days that were written, or stay texts if two orders fit."""
    source = random.Random(seed)  # noqa: S311 - days of a test
    days = [dt.date(2000, 1, 1) + dt.timedelta(source.randint(0, 9_000)) for _ in range(source.randint(1, 12))]
    cells = [day.strftime(pattern) for day in days]
    kind, found, notes = column(tmp_path, cells)
    clear = pattern.startswith("%Y") or any(day.day > 12 for day in days)
    assert found == (days if clear else cells)
    assert kind == (pa.date32() if clear else pa.string())
    assert notes == ([WRITTEN[pattern]] if clear and WRITTEN[pattern] else notes if not clear else [])


@pytest.mark.parametrize("ending", ["first", "last"])
def test_header_above_written_dates(tmp_path: Path, ending: str) -> None:
    """Unclear dates still say whether the first line is a header."""
    (tmp_path / "t.csv").write_text(("day,name\n" if ending == "first" else "") + "1/2/2012,Ann\n3/4/2012,Bob\n")
    convert_csv([tmp_path / "t.csv"], NOTHING_SAID, tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet").num_rows == 2


def test_quotes_as_letters(tmp_path: Path) -> None:
    """A quote inside a value is a letter if the file has no quoted values, and a note says so."""
    cells = [*map(str, range(3_000)), '"Swing it" boys']
    _, found, notes = column(tmp_path, cells)
    assert found == cells
    assert notes == ["read with quotes as letters, because line 3002 has one inside a value"]
