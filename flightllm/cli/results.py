"""Running a statement, and showing or writing its result, for `flightllm query` and the shell."""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO, TextIOWrapper
from pathlib import Path
from typing import IO, Any, Final

import click
import pyarrow as pa
from rich.console import Console

from flightllm.cli.calls import CallsBar
from flightllm.cli.writers import BINARY, PLAIN, WRITERS, Writing
from flightllm.client import Client
from flightllm.common.amounts import counted
from flightllm.common.atomic_files import replaced
from flightllm.connection.cost import may_call
from flightllm.connection.render import (
    as_plan,
    as_table,
    first_rows,
    fitting,
    put,
    rows_of,
    write_table,
    write_vertical,
)
from flightllm.errors import FlightLLMError

FORMS: Final = ("table", "vertical", *WRITERS)
"""The forms of results."""
_EXPLAIN = re.compile(r"\s*explain\b", re.IGNORECASE)


@dataclass(slots=True)
class Output:
    """Where results go, standard output or a file, and their form. A file has one result after the other."""

    form: str = "table"
    path: Path | None = None
    hint: str = "--format vertical"
    """The words that show all columns of a result that is too wide for the terminal."""
    writing: Writing = PLAIN
    counts: bool = False
    """Whether standard error says how many rows a file has."""
    paged: bool = False
    """Whether a program such as `less` shows results on the terminal, with all their rows and columns."""
    _begun: bool = False
    """Whether the file has a result."""

    @property
    def on_terminal(self) -> bool:
        """Return whether a person sees the results."""
        return self.path is None and sys.stdout.isatty()

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """Open the output for bytes.

        Raises:
            FlightLLMError: the file cannot be written, or its form has room for only one result.
        """
        if self.path is None:
            yield sys.stdout.buffer
            return
        if self._begun and self.form in BINARY:
            raise FlightLLMError(
                f"{self.path} has a result, and a .{self.form} file has room for only one: name another"
            )
        try:
            with self.path.open("ab") if self._begun else replaced(self.path) as file:
                yield file
            self._begun = True
        except OSError as error:
            raise FlightLLMError(f"cannot write {self.path}: {error.strerror or error}") from error

    @contextmanager
    def opened_text(self) -> Iterator[IO[str]]:
        """Open the output for text; see `opened`."""
        if self.path is None:
            yield sys.stdout
            return
        with self.opened() as file, TextIOWrapper(file, encoding="utf-8") as text:
            yield text


def run_text(client: Client, text: str, output: Output) -> None:
    """Run a statement, and show or write its rows."""
    with CallsBar(client, text) as bar:
        schema, batches = client.query(text)
        if not len(schema):
            for _ in batches:
                pass
            bar.hide()
            click.echo(_done(client.affected), err=output.form not in {"table", "vertical"})
        elif output.form in WRITERS:
            if output.on_terminal:
                batches = bar.hidden_before(batches)
            counter = _Counter(batches)
            with output.opened() as out:
                WRITERS[output.form](schema, counter, out, output.writing)
            if output.counts:
                click.echo(f"{counted(counter.rows, 'row')} in {output.path}", err=True)
        else:
            _show(schema, batches, output, bar, explains=bool(_EXPLAIN.match(text)))
    _tell_work(client, text)


class _Counter:
    """Batches, and the number of their rows so far."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches once."""
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch


def _show(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], output: Output, bar: CallsBar, *, explains: bool
) -> None:
    """Print rows for people: on a terminal the first rows and their number, elsewhere all rows."""
    if output.on_terminal and not explains and not output.paged:
        rows, total = first_rows(batches)
        bar.hide()
        _show_first(schema, rows, total, output)
        return
    kept = list(batches)
    bar.hide()
    with pager() if output.paged and output.on_terminal else output.opened_text() as out:
        if explains:
            width = None if output.on_terminal and not output.paged else 10_000
            Console(file=out, width=width, highlight=False).print(as_plan(rows_of(kept)), soft_wrap=True, end="")
        elif output.form == "vertical":
            write_vertical(schema, rows_of(kept), out)
        else:
            write_table(schema, kept, out)


@contextmanager
def pager() -> Iterator[IO[str]]:
    """Show what is written in the program of `$PAGER`, or else in `less`, which scrolls sideways too."""
    os.environ.setdefault("LESS", "-RSX")
    text = StringIO()
    yield text
    click.echo_via_pager(text.getvalue())


def _show_first(schema: pa.Schema, rows: Sequence[Sequence[Any]], total: int, output: Output) -> None:
    more, elided = f", first {len(rows)} shown" if len(rows) < total else "", ""
    if output.form == "vertical":
        write_vertical(schema, rows, sys.stdout)
    else:
        console = Console(highlight=False)
        fits = fitting(schema, rows, console.width)
        put(console, as_table(fits.schema, fits.rows))
        elided = f"… {counted(fits.hidden, 'more column')}: {output.hint} shows all\n" if fits.hidden else ""
    click.echo(f"({counted(total, 'row')}{more})\n{elided}", nl=False)


def _done(affected: int | None) -> str:
    """Return the message for a statement without rows."""
    return "done" if affected is None else f"{counted(affected, 'row')} affected"


def _tell_work(client: Client, sql: str) -> None:
    """Say on standard error what the model calls took, and how many rows have no usable answer."""
    if client.query_id is None and not may_call(sql):  # a change has no id, and finding its work takes two queries
        return
    work = client.progress()
    if work is None:
        return
    if line := work.summary(work.rows if client.affected is None else client.affected):
        click.echo(line, err=True)
    if work.failed_rows:
        told = re.search(r"on_error\s*=>\s*'struct'", sql, re.IGNORECASE)
        where = "; see their error" if told else " (NULL); on_error => 'struct' shows why"
        reason = client.reason()
        where = f": {reason}" if reason else where
        click.echo(f"{counted(work.failed_rows, 'row')} without an answer{where}", err=True)
    else:
        for text in work.warnings:
            click.echo(f"warning: {text}", err=True)
