"""Results as text: every format keeps values, NULLs and nested types readable."""

import io
from datetime import date, time
from decimal import Decimal

import pyarrow as pa
import pytest
from rich.console import Console

from flightllm.connection.render import (
    as_plan,
    as_table,
    first_rows,
    fitting,
    put,
    rows_of,
    text_of,
    write_table,
    write_vertical,
)

TABLE = pa.table(
    {
        "n": [1, None],
        "text": ['a "b"', "two\nlines"],
        "list": [["x"], None],
        "day": [date(2024, 1, 2), None],
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
    }
)


def test_equal_column_names_stay_apart() -> None:
    """`SELECT a.x, b.x` shows both columns."""
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    assert list(rows_of([batch])) == [(1, 2)]


def test_rows_beyond_the_shown_ones_are_counted() -> None:
    """A long result is cut in the table but its size is told."""
    rows, total = first_rows(pa.table({"n": range(10)}).to_batches(max_chunksize=3), 4)
    assert (rows, total) == ([(0,), (1,), (2,), (3,)], 10)


@pytest.mark.parametrize(
    ("value", "width", "expected"),
    [
        (None, None, ""),
        (0.1 + 0.2, None, "0.3"),
        ("two\nlines", None, "two ⏎ lines"),
        ("\x1b[31mred", None, "[31mred"),
        ("abcdef", 4, "abc…"),
        ({"a": "ä"}, None, '{"a": "ä"}'),
        (b"\xff\x00a", None, "ff0061"),
        ([b"\xff", float("nan")], None, '["ff", null]'),
    ],
)
def test_cells_are_one_safe_line(value: object, width: int | None, expected: str) -> None:
    """A cell never breaks the table, and no value can send escape codes to the terminal."""
    assert text_of(value, width) == expected


def test_table_takes_values_for_text_not_markup() -> None:
    """Square brackets in data are shown, not read as styles."""
    console = Console(file=io.StringIO(), width=80)
    console.print(as_table(pa.schema([("t", pa.string())]), [("[bold]x",)]))
    assert isinstance(console.file, io.StringIO)
    assert "[bold]x" in console.file.getvalue()


def test_lines_end_without_blanks_outside_a_terminal() -> None:
    """A file or a pipe gets no blanks that only fill a table's width."""
    out = io.StringIO()
    put(Console(file=out, width=80), as_table(pa.schema([("t", pa.string())]), [("long text",), ("x",)]))
    assert [line for line in out.getvalue().splitlines() if line != line.rstrip()] == []
    assert out.getvalue().endswith("x\n")


def test_a_piped_table_is_as_wide_as_its_cells() -> None:
    """All rows have the same columns, also with letters of two places; numbers are right-aligned."""
    table = pa.table({"n": [1, 20], "日本": ["x" * 30, None], "t": ["a\nb", "語"]})
    out = io.StringIO()
    write_table(table.schema, table.to_batches(), out)
    assert out.getvalue().splitlines() == [
        f" n ┃ 日本{' ' * 26} ┃ t",
        f"━━━╇━{'━' * 30}━╇━━━━━━",
        f" 1 │ {'x' * 30} │ a ⏎ b",
        f"20 │ {' ' * 30} │ 語",
        "(2 rows)",
    ]


def shown(columns: int, width: int, cell: str = "x" * 40) -> tuple[list[str], int]:
    """Return the columns that fit, of columns `c0`, `c1` and so on, and how many are left out."""
    schema = pa.schema([(f"c{number}", pa.string()) for number in range(columns)])
    fits = fitting(schema, [(cell,) * columns], width)
    assert all(len(row) == len(fits.schema) for row in fits.rows)
    return list(fits.schema.names), fits.hidden


def test_columns_that_do_not_fit_are_elided() -> None:
    """A column has room for its cells or for 16 characters; those in the middle go, and the last one stays."""
    assert shown(4, 80) == (["c0", "c1", "c2", "c3"], 0)
    assert shown(5, 80) == (["c0", "c1", "c2", "c3", "c4"], 0)
    assert shown(6, 80) == (["c0", "c1", "c2", "…", "c5"], 2)
    assert shown(46, 110) == (["c0", "c1", "c2", "c3", "…", "c45"], 41)
    assert shown(46, 110, "x")[1] == 27
    assert shown(3, 10) == (["…", "c2"], 2)
    assert shown(2, 10) == (["c0", "c1"], 0)
    assert shown(1, 5) == (["c0"], 0)


def test_vertical_rows() -> None:
    """Each column has a line, under the number of the row."""
    table = pa.table({"n": [1, None], "日本": ["a\nb", "語"]})
    out = io.StringIO()
    write_vertical(table.schema, rows_of(table.to_batches()), out)
    assert out.getvalue().splitlines() == [
        *("── row 1 ──", "   n │ 1", "日本 │ a ⏎ b"),
        *("── row 2 ──", "   n │", "日本 │ 語"),
    ]


def test_a_plan_keeps_its_lines() -> None:
    """What EXPLAIN returns stays as it is laid out, under its titles; a document alone stands by itself."""
    console = Console(file=io.StringIO(), width=20, highlight=False)
    console.print(as_plan([("total", "     calls\npredicted  12\x1b[2J"), ("notes", "n" * 30)]), soft_wrap=True, end="")
    console.print(as_plan([('{"a": [1]}',)]), soft_wrap=True, end="")
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == (
        f'total\n       calls\n  predicted  12 [2J\n\nnotes\n  {"n" * 30}\n\n{{"a": [1]}}\n'
    )


def test_nanoseconds() -> None:
    """Times finer than Python's are shown in full, without pandas; within lists they end at microseconds."""
    fine = 1_234_567_891
    kinds = {"zone": pa.timestamp("ns", "UTC"), "plain": pa.timestamp("ns"), "time": pa.time64("ns")}
    batch = pa.record_batch({name: pa.array([fine, None], kind) for name, kind in kinds.items()})
    day = "1970-01-01 "
    shown = (f"{day}00:00:01.234567891Z", f"{day}00:00:01.234567891", "00:00:01.234567891")
    assert list(rows_of([batch])) == [shown, (None, None, None)]
    coarse = pa.record_batch({"l": pa.array([[fine], None], pa.list_(pa.time64("ns")))})
    assert list(rows_of([coarse])) == [([time(0, 0, 1, 234_567)],), (None,)]
