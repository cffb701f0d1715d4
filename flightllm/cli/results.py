"""Running a statement, and showing or writing its result, for `flightllm query` and the shell."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, Final

import click
import pyarrow as pa
from rich.console import Console

from flightllm.cli.calls import CallsBar, may_call
from flightllm.cli.render import (
    WRITERS,
    as_plan,
    as_table,
    first_rows,
    fitting,
    put,
    rows_of,
    write_table,
    write_vertical,
)
from flightllm.client import Client
from flightllm.common.amounts import counted
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
        if self._begun and self.form == "parquet":
            raise FlightLLMError(f"{self.path} has a result, and a Parquet file has room for only one: name another")
        try:
            file = self.path.open("ab" if self._begun else "wb")
        except OSError as error:
            raise FlightLLMError(f"cannot write {self.path}: {error.strerror}") from error
        self._begun = True
        with file:
            yield file

    @contextmanager
    def opened_text(self) -> Iterator[IO[str]]:
        """Open the output for text; see `opened`."""
        if self.path is None:
            yield sys.stdout
            return
        with self.opened() as file, TextIOWrapper(file, encoding="utf-8") as text:
            yield text


def form_of(path: Path) -> str | None:
    """Return the form for the ending of a file's name, or None for an ending of no form."""
    ending = path.suffix.lower().removeprefix(".")
    form = {"jsonl": "json", "ndjson": "json", "txt": "table", "": "table"}.get(ending, ending)
    return form if form in {"table", *WRITERS} else None


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
            with output.opened() as out:
                WRITERS[output.form](schema, batches, out)
        else:
            _show(schema, batches, output, bar, explains=bool(_EXPLAIN.match(text)))
    _tell_work(client, text)


def _show(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], output: Output, bar: CallsBar, *, explains: bool
) -> None:
    """Print rows for people: on a terminal the first rows and their number, elsewhere all rows."""
    if output.on_terminal and not explains:
        rows, total = first_rows(batches)
        bar.hide()
        _show_first(schema, rows, total, output)
        return
    kept = list(batches)
    bar.hide()
    with output.opened_text() as out:
        if explains:
            width = None if output.on_terminal else 10_000
            Console(file=out, width=width, highlight=False).print(as_plan(rows_of(kept)), soft_wrap=True, end="")
        elif output.form == "vertical":
            write_vertical(schema, rows_of(kept), out)
        else:
            write_table(schema, kept, out)


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
