"""Constants and names of any characters reach a source as they are: nothing in them is SQL."""

import random
import sqlite3
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flightllm.attached.columns import Column, SourceTable
from flightllm.attached.conditions import read_tree, where
from flightllm.attached.literals import plain, with_times
from flightllm.attached.select import select_text
from tests.sources import source_of

SPITEFUL = [
    "'",
    "''",
    '"',
    '""',
    "`",
    ";",
    "--",
    "/*",
    "*/",
    "\\",
    "$$",
    "\n",
    "%",
    "?",
    ":x",
    "{{",
    "é",
    "\u2019",
    " ",
]
TEXTS = st.one_of(st.text(max_size=12), st.lists(st.sampled_from(SPITEFUL), max_size=6).map("".join))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (pa.scalar(True), "TRUE"),
        (pa.scalar(Decimal("-1.50")), "(-1.50)"),
        (pa.scalar(1e300), "1e+300"),
        (pa.scalar(float("inf")), None),
        (pa.scalar(None, pa.int64()), None),
        (pa.scalar(b"x"), None),
        (pa.scalar(date(2024, 1, 2)), "CAST('2024-01-02' AS DATE)"),
        (pa.scalar(datetime(2024, 1, 2, 3, tzinfo=UTC)), "CAST('2024-01-02 03:00:00+00:00' AS TIMESTAMPTZ)"),
        (pa.scalar(1, pa.timestamp("ns")), None),
        (pa.scalar(1 << 62, pa.timestamp("us")), None),
    ],
)
def test_kinds(value: pa.Scalar, text: str | None) -> None:
    """Numbers, texts and times are written, and what has no exact form is not."""
    found = with_times(value)
    assert (None if found is None else found.sql("postgres")) == text


def test_no_times() -> None:
    """A source without types for times gets none."""
    assert plain(pa.scalar(date(2024, 1, 2))) is None


@settings(max_examples=60, deadline=None)
@given(name=TEXTS, value=TEXTS)
def test_texts_and_names(tmp_path_factory: pytest.TempPathFactory, name: str, value: str) -> None:
    """A column and a constant of any characters find their row, in SQLite."""
    name, value = name.replace("\0", "") or "c", value.replace("\0", "")
    _same_row(tmp_path_factory.mktemp("file") / "x.sqlite", name, value)


def _same_row(path: Path, name: str, value: str) -> None:
    marks = '"' + name.replace('"', '""') + '"'
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE {marks} ({marks} TEXT, other INTEGER)")
        connection.execute(f"INSERT INTO {marks} VALUES (?, 1), ('something else', 2)", (value,))
        connection.commit()
    column = Column(name, "TEXT", pa.string(), compared="order")
    table = SourceTable("main", name, (column, Column("other", "INTEGER", pa.int64())))
    condition = where(read_tree(pa.compute.field(name) == value), {name: column}, plain)
    text = select_text(table, table.columns, condition, "sqlite")
    source = source_of(path)
    rows = source.rows(text)
    try:
        found = [row for batch in rows.batches() for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)]
    finally:
        rows.close()
    assert (value, 1) in found
    assert len(found) == (2 if condition is None or value == "something else" else 1)


@pytest.mark.slow
def test_many_texts_and_names() -> None:
    """The same holds for PostgreSQL's and DuckDB's generators: their tokenizers read the constant and name back."""
    import sqlglot

    chance = random.Random(7)  # noqa: S311
    for _ in range(5_000):
        name = "".join(chance.choices([*SPITEFUL, "a", "B", "1"], k=chance.randint(1, 8)))
        value = "".join(chance.choices([*SPITEFUL, "a", "B", "1"], k=chance.randint(0, 8)))
        column = Column(name, "text", pa.string(), compared="order")
        condition = where(read_tree(pa.compute.field(name) == value), {name: column}, with_times)
        for dialect in ("postgres", "duckdb", "sqlite", ""):
            text = select_text(SourceTable(name, name, (column,)), [column], condition, dialect)
            (tree,) = sqlglot.parse(text, dialect=dialect)
            assert tree is not None
            assert [one.name for one in tree.find_all(sqlglot.exp.Table)] == [name]
            assert {one.name for one in tree.find_all(sqlglot.exp.Column)} == {name}
            given = [one.this for one in tree.find_all(sqlglot.exp.Literal) if one.is_string]
            assert given == ([] if condition is None else [value])


@pytest.mark.parametrize("days", [2_932_897, -719_163, 1 << 30])
def test_a_day_that_python_lacks(days: int) -> None:
    """A day before the year 1 or after 9999 does not go out, and is no error."""
    assert with_times(pa.scalar(days, pa.date32())) is None
