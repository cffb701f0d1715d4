"""Results for programs: each format keeps values, NULLs and nested types."""

import io
import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flightllm.cli import spreadsheet
from flightllm.cli.spreadsheet import write_workbook
from flightllm.cli.writers import Writing, form_of, write_csv, write_json, write_parquet, write_tsv

TABLE = pa.table(
    {
        "n": [1, None],
        "text": ['a "b"', "two\nlines"],
        "list": [["x"], None],
        "day": [date(2024, 1, 2), None],
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
    }
)


def test_csv_round_trips_and_writes_nested_values_as_json() -> None:
    """Lists become JSON text, NULL an empty cell."""
    out = io.BytesIO()
    write_csv(TABLE.schema, TABLE.to_batches(), out)
    assert out.getvalue().decode() == (
        '"n","text","list","day","price"\n1,"a ""b""","[""x""]",2024-01-02,1.50\n,"two\nlines",,,\n'
    )


def test_json_is_one_object_a_line() -> None:
    """Dates and decimals become text, NULL null."""
    out = io.BytesIO()
    write_json(TABLE.schema, TABLE.to_batches(), out)
    first, second = map(json.loads, out.getvalue().splitlines())
    assert first == {"n": 1, "text": 'a "b"', "list": ["x"], "day": "2024-01-02", "price": "1.50"}
    assert second["n"] is None


def test_parquet_holds_the_same_table() -> None:
    """Nothing is lost on the way into a Parquet file."""
    out = io.BytesIO()
    write_parquet(TABLE.schema, TABLE.to_batches(), out)
    assert pq.read_table(io.BytesIO(out.getvalue())).equals(TABLE)


ODD = pa.table(
    {
        "bin": [b"\xff\xfe", None],
        "fixed": pa.array([b"\xffa", None], pa.binary(2)),
        "list": [[b"\xff"], None],
        "n": [float("nan"), float("-inf")],
        "s": [{"n": float("nan")}, None],
        "i": pa.array([pa.MonthDayNano([1, 2, 3]), None], pa.month_day_nano_interval()),
    }
)


def test_csv_writes_bytes_in_hexadecimal() -> None:
    """Bytes that are no UTF-8, alone or in a list, are written like those that are; intervals become text."""
    out = io.BytesIO()
    write_csv(ODD.schema, ODD.to_batches(), out)
    header, first, second = out.getvalue().decode().splitlines()
    assert header == '"bin","fixed","list","n","s","i"'
    assert first.startswith('"fffe","ff61","[""ff""]",nan,"{""n"": null}",')
    assert second == ",,,-inf,,"


def test_json_stays_json() -> None:
    """NaN and infinities are null, at any depth, and bytes hexadecimal."""

    def refuse(name: str) -> None:
        pytest.fail(f"{name} is no JSON")

    out = io.BytesIO()
    write_json(ODD.schema, ODD.to_batches(), out)
    first, second = (json.loads(line, parse_constant=refuse) for line in out.getvalue().splitlines())
    assert {**first, "i": None} == {
        "bin": "fffe",
        "fixed": "ff61",
        "list": ["ff"],
        "n": None,
        "s": {"n": None},
        "i": None,
    }
    assert second["n"] is None


def test_csv_by_choice() -> None:
    """The delimiter and the header can be chosen; TSV has tabs."""
    out, tabs = io.BytesIO(), io.BytesIO()
    two = TABLE.select(["n", "price"])
    write_csv(two.schema, two.to_batches(), out, Writing(";", header=False))
    write_tsv(two.schema, two.to_batches(), tabs)
    assert out.getvalue() == b"1;1.50\n;\n"
    assert tabs.getvalue() == b'"n"\t"price"\n1\t1.50\n\t\n'


@pytest.mark.parametrize(
    ("name", "form"),
    [("a.CSV", "csv"), ("a.tab", "tsv"), ("a.ndjson", "json"), ("a.txt", "table"), ("a", "table"), ("a.doc", None)],
)
def test_the_ending_of_a_name_is_a_form(name: str, form: str | None) -> None:
    """The usual endings are known."""
    assert form_of(Path(name)) == form


def test_a_workbook_holds_what_excel_can_hold(capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers, truths, dates and times keep their types; what Excel would change is text."""
    calamine = pytest.importorskip("python_calamine", reason="the extra 'excel' is not installed")
    at = datetime(2024, 5, 6, 7, 8, 9)  # noqa: DTZ001 - Excel has no zones
    rows = {
        "n": [1, 2**53 + 1],
        "price": [Decimal("1.50"), Decimal("1.234567890123456789")],
        "share": [0.25, float("nan")],
        "yes": [True, None],
        "day": [date(2024, 1, 2), date(1850, 1, 2)],
        "at": [at, at + timedelta(microseconds=1)],
        "zoned": [at.replace(tzinfo=UTC), None],
        "clock": [time(7, 8, 9), None],
        "list": [["x"], None],
        "text": ["=1+1", "x" * 40_000],
    }
    table, out = pa.table(rows), io.BytesIO()
    write_workbook(table.schema, table.to_batches(), out)
    names, first, second = (
        calamine.CalamineWorkbook.from_filelike(io.BytesIO(out.getvalue())).get_sheet_by_index(0).to_python()
    )
    assert names == [*rows]
    assert first == [
        1,
        1.5,
        0.25,
        True,
        date(2024, 1, 2),
        at,
        "2024-05-06 07:08:09+00:00",
        time(7, 8, 9),
        '["x"]',
        "=1+1",
    ]
    assert second[:7] == [
        "9007199254740993",
        "1.234567890123456789",
        "nan",
        "",
        "1850-01-02",
        "2024-05-06 07:08:09.000001",
        "",
    ]
    assert len(second[-1]) == 32_767
    assert capsys.readouterr().err == "Excel keeps 32,767 characters of a text: 1 cell cut\n"


def test_a_long_result_has_several_sheets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows beyond the last row of a sheet go to the next sheet, below the same header."""
    calamine = pytest.importorskip("python_calamine", reason="the extra 'excel' is not installed")
    monkeypatch.setattr(spreadsheet, "_ROWS", 3)
    table, out = pa.table({"n": range(4)}), io.BytesIO()
    write_workbook(table.schema, table.to_batches(max_chunksize=3), out)
    book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(out.getvalue()))
    assert [book.get_sheet_by_name(name).to_python() for name in book.sheet_names] == [
        [["n"], [0], [1]], [["n"], [2], [3]],
    ]  # fmt: skip


def test_an_empty_result_is_a_workbook_too() -> None:
    """The header is there without rows."""
    calamine = pytest.importorskip("python_calamine", reason="the extra 'excel' is not installed")
    out = io.BytesIO()
    write_workbook(pa.schema([("n", pa.int64())]), [], out)
    book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(out.getvalue()))
    assert book.get_sheet_by_index(0).to_python() == [["n"]]
