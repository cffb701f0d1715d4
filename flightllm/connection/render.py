"""Results for people: tables, one line for each column, and plans."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import IO, Any, NamedTuple

import pyarrow as pa
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from flightllm.common.amounts import counted
from flightllm.common.leaf_types import in_microseconds
from flightllm.common.text import json_text, plain_text

TABLE_ROWS = 200
"""The most rows that a table shows on a terminal; further rows are only counted."""
_LEAST = 16
"""The characters for which each column of a terminal has room, if its cells have as many."""


def text_of(value: Any, width: int | None = None) -> str:
    """Return a value as one line, cut to `width` characters; NULL is empty.

    A line break becomes `⏎`. Control characters become spaces, so that a cell cannot control the terminal.
    """
    if value is None:
        return ""
    if isinstance(value, float):
        text = f"{value:.6g}"
    elif isinstance(value, dict | list):
        text = json_text(value)
    else:
        text = plain_text(value)
    text = " ⏎ ".join(line for line in text.splitlines() if line.strip())
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if width is None or len(line) <= width else f"{line[: width - 1]}…"


def console_of(width: int = 150) -> Console:
    """Return a console as wide as the terminal, or `width` characters wide if there is no terminal."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(width=width, highlight=False)


def put(console: Console, what: RenderableType) -> None:
    """Print to the console; if it is not a terminal, remove the blanks at the ends of lines."""
    if console.is_terminal:
        console.print(what)
        return
    with console.capture() as captured:
        console.print(what)
    console.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def as_table(schema: pa.Schema, rows: Sequence[Sequence[Any]], width: int | None = None) -> Table:
    """Arrange rows in columns, with numbers right-aligned and cells cut to `width`."""
    table = Table(header_style="bold", show_edge=False, pad_edge=False)
    for field in schema:
        table.add_column(Text(field.name), justify="right" if _is_number(field.type) else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(text_of(value, width)) for value in row))
    return table


class Fitting(NamedTuple):
    """Columns that fit on a terminal: their schema and rows, and how many columns are left out."""

    schema: pa.Schema
    rows: Sequence[Sequence[Any]]
    hidden: int


def fitting(schema: pa.Schema, rows: Sequence[Sequence[Any]], width: int) -> Fitting:
    """Return the first columns and the last one, as far as each has room for its cells or for `_LEAST` characters.

    A column `…` stands for those in the middle. The last column stays, because a query often adds its answers there.
    """
    needed = [min(_LEAST, _widest(name, rows, column)) for column, name in enumerate(schema.names)]
    if sum(needed) + 3 * (len(needed) - 1) <= width:
        return Fitting(schema, rows, 0)
    left = width - (needed[-1] + 3) - len("…")
    shown = 0
    while shown < len(needed) - 2 and (left := left - needed[shown] - 3) >= 0:
        shown += 1
    hidden = len(needed) - 1 - shown
    if hidden < 2:  # the sign for one column needs as much room as a narrow one
        return Fitting(schema, rows, 0)
    fields = [*(schema.field(number) for number in range(shown)), pa.field("…", pa.string()), schema.field(-1)]
    return Fitting(pa.schema(fields), [(*row[:shown], "…", row[-1]) for row in rows], hidden)


def _widest(name: str, rows: Sequence[Sequence[Any]], column: int) -> int:
    return max(cell_len(name), max((cell_len(text_of(row[column], _LEAST)) for row in rows), default=0))


def write_vertical(schema: pa.Schema, rows: Iterable[Sequence[Any]], out: IO[str]) -> None:
    """Write each row as one line for each column."""
    names = [text_of(name) for name in schema.names]
    width = max(map(cell_len, names))
    for number, row in enumerate(rows, 1):
        out.write(f"── row {number:,} ──\n")
        for name, value in zip(names, row, strict=True):
            out.write(f"{_padded(name, width, right=True)} │ {text_of(value)}".rstrip() + "\n")


def write_table(schema: pa.Schema, batches: Sequence[pa.RecordBatch], out: IO[str]) -> None:
    """Write all rows as a table, as wide as necessary, and their number."""
    names, right = [text_of(name) for name in schema.names], [_is_number(field.type) for field in schema]
    widths = [cell_len(name) for name in names]
    for row in rows_of(batches):
        widths = [max(width, cell_len(text_of(value))) for width, value in zip(widths, row, strict=True)]
    out.write(" ┃ ".join(map(_padded, names, widths, right)).rstrip() + "\n")
    out.write("━╇━".join("━" * width for width in widths) + "\n")
    for row in rows_of(batches):
        out.write(" │ ".join(map(_padded, map(text_of, row), widths, right)).rstrip() + "\n")
    out.write(f"({counted(sum(batch.num_rows for batch in batches), 'row')})\n")


def _padded(text: str, width: int, right: bool) -> str:  # noqa: FBT001 - for `map`
    blanks = " " * (width - cell_len(text))
    return f"{blanks}{text}" if right else f"{text}{blanks}"


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def as_plan(rows: Iterable[Sequence[Any]]) -> Text:
    """Format the output of EXPLAIN: each title, then the text below it with lines and spaces unchanged."""
    text = Text()
    for *title, body in rows:
        if title:
            text.append(f"{_printable(title[0])}\n", "bold")
        for line in str(body).splitlines():
            text.append(f"{'  ' if title else ''}{_printable(line)}\n")
        text.append("\n" if title else "")
    return text


def _printable(line: str) -> str:
    return "".join(c if c.isprintable() else " " for c in line)


def rows_of(batches: Iterable[pa.RecordBatch], *, shown: bool = True) -> Iterable[tuple[Any, ...]]:
    """Yield rows as Python values; columns with equal names stay separate.

    Python's times have only microseconds. Where rows are `shown`, finer times become texts; else they are cut.
    """
    for batch in batches:
        yield from zip(*(_values(column, shown=shown) for column in batch.columns), strict=True)


def _values(column: pa.Array, *, shown: bool) -> Sequence[Any]:
    coarse = in_microseconds(column.type)
    if coarse == column.type:
        return list(column.to_pylist())
    try:
        return list(column.cast(coarse).to_pylist())
    except pa.ArrowInvalid:  # some values have nanoseconds
        plain = shown and (pa.types.is_timestamp(column.type) or pa.types.is_time(column.type))
        return list(column.cast(pa.string() if plain else coarse, safe=False).to_pylist())


def first_rows(batches: Iterable[pa.RecordBatch], count: int | None = TABLE_ROWS) -> tuple[list[tuple[Any, ...]], int]:
    """Return the first `count` rows, or all rows for None, and the total number of rows."""
    rows = iter(rows_of(batches))
    shown = list(islice(rows, count))
    return shown, len(shown) + sum(1 for _ in rows)
