"""`flightllm query`: run one SQL text and show or write its result."""

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import IO

import click
import pyarrow as pa
from rich.console import Console

from flightllm.cli.calls import CallsBar, counted, may_call, summary
from flightllm.cli.common import Files, SettingParameter, connect, file_options, server_options
from flightllm.cli.opened import asked_server
from flightllm.cli.price import confirmed
from flightllm.cli.render import TABLE_ROWS, WRITERS, as_plan, as_table, first_rows, put, write_table
from flightllm.cli.running import interruptible
from flightllm.cli.statements import errors_at, located_statements, split_statements
from flightllm.client import Client
from flightllm.common.command_line import Server
from flightllm.errors import FlightLLMError

_EXPLAIN = re.compile(r"\s*explain\b", re.IGNORECASE)
_SETTING = re.compile(r"\s*(?:re)?set\b", re.IGNORECASE)


@click.command()
@server_options
@click.option(
    "--format",
    "format_",
    type=click.Choice(["table", *WRITERS]),
    help="[default: by the ending of the output's name, else table]",
)
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Write to a file instead of standard output.")
@click.option("--set", "settings", type=SettingParameter(), multiple=True, help="Setting for this query. Repeatable.")
@file_options
@click.argument("sql")
def query(
    *,
    server: Server,
    format_: str | None,
    output: Path | None,
    settings: tuple[tuple[str, str], ...],
    files: Files,
    ask_above: float | None,
    sql: str,
) -> None:
    """Run SQL on a server, or on files.

    `-` reads the SQL from standard input. Several statements, separated by semicolons, run one after the other in one
    session, until one fails. On a terminal, a line shows the model calls while they run, their tokens and cost, and the
    time left. After a statement with model calls, standard error has a line with the same figures.

    \b
    flightllm query "SELECT title FROM movies WHERE ai_filter('About family? {movie_info}', movie_info)"
    flightllm query --open tickets.csv "SELECT count(*) FROM tickets"
    flightllm query --format parquet -o answers.parquet - < question.sql
    flightllm query --set optimizer=off "EXPLAIN SELECT ai_sentiment(body) FROM tickets"
    """
    text = sys.stdin.read() if sql == "-" else sql
    format_ = format_ or _format_of(output)
    if format_ == "parquet" and output is None and sys.stdout.isatty():
        raise click.UsageError("Parquet is binary: name a file with --output.")
    statements = list(split_statements(text))
    if len(statements) > 1 and (output is not None or format_ == "parquet"):
        raise click.UsageError(f"A file can hold the rows of only one statement, and the text has {len(statements)}.")
    with ExitStack() as stack:
        server = stack.enter_context(asked_server(files, server, text))
        client = stack.enter_context(connect(server, dict(settings)))
        if len(statements) > 1:
            for one, line in located_statements(text):
                with errors_at(line):
                    _run(client, one, format_, ask_above=ask_above)
        else:
            _run(client, (statements or [text])[0], format_, output, ask_above=ask_above)
    if statements and _SETTING.match(statements[-1]):
        click.echo("a setting lasts for one session, which here is this command only: use --set key=value", err=True)


def _run(client: Client, text: str, format_: str, output: Path | None = None, *, ask_above: float | None) -> None:
    """Run a statement, unless the user does not want its cost."""
    if sys.stdin.isatty() and not confirmed(client, text, ask_above):
        raise click.exceptions.Exit(0)
    interruptible(client, partial(run_text, client, text, format_, output))


def run_text(client: Client, text: str, format_: str, output: Path | None = None) -> None:
    """Run a statement, and print or write its rows."""
    with CallsBar(client, text) as bar:
        schema, batches = client.query(text)
        if not len(schema):
            for _ in batches:
                pass
            bar.hide()
            click.echo(_done(client.affected), err=format_ != "table")
        elif format_ == "table":
            _show(schema, bar, batches, output, explains=bool(_EXPLAIN.match(text)))
        else:
            if output is None and sys.stdout.isatty():
                batches = bar.hidden_before(batches)
            with _opened(output) as out:
                WRITERS[format_](schema, batches, out)
    _tell_work(client, text)


def _format_of(output: Path | None) -> str:
    """Return the format for the ending of a file's name."""
    ending = "" if output is None else output.suffix.lower().removeprefix(".")
    form = {"jsonl": "json", "ndjson": "json", "txt": "table", "": "table"}.get(ending, ending)
    if form not in {"table", *WRITERS}:
        raise click.UsageError(
            f"{output} ends in {ending}, which is not a format: use --format with one of {', '.join(WRITERS)}."
        )
    return form


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
    if line := summary(work, work.rows if client.affected is None else client.affected):
        click.echo(line, err=True)
    if work.failed_rows:
        told = re.search(r"on_error\s*=>\s*'struct'", sql, re.IGNORECASE)
        where = "; see their error" if told else " (NULL); on_error => 'struct' shows why"
        reason = client.reason()
        where = f": {reason}" if reason else where
        click.echo(f"{counted(work.failed_rows, 'row')} without an answer{where}", err=True)


def _show(
    schema: pa.Schema, bar: CallsBar, batches: Iterable[pa.RecordBatch], output: Path | None, *, explains: bool
) -> None:
    """Print rows as a table, as wide as the terminal, or as wide as necessary elsewhere.

    A file or a pipe gets all rows, a terminal the first `TABLE_ROWS` rows.
    """
    if not explains and (output is not None or not sys.stdout.isatty()):
        kept = list(batches)
        bar.hide()
        with nullcontext(sys.stdout) if output is None else _text_file(output) as out:
            write_table(schema, kept, out)
        return
    rows, total = first_rows(batches, None if explains else TABLE_ROWS)
    bar.hide()
    with nullcontext(sys.stdout) if output is None else _text_file(output) as out:
        console = Console(file=out, width=None if out.isatty() else 10_000, highlight=False)
        if explains:
            console.print(as_plan(rows), soft_wrap=True, end="")
            return
        put(console, as_table(schema, rows))
        more = f", first {len(rows)} shown" if len(rows) < total else ""
        console.print(f"({total} row{'' if total == 1 else 's'}{more})")


@contextmanager
def _opened(output: Path | None) -> Iterator[IO[bytes]]:
    """Open the output for bytes; raise our error for a file that cannot be written."""
    if output is None:
        yield sys.stdout.buffer
        return
    try:
        file = output.open("wb")
    except OSError as error:
        raise FlightLLMError(f"cannot write {output}: {error.strerror}") from error
    with file:
        yield file


@contextmanager
def _text_file(output: Path) -> Iterator[IO[str]]:
    try:
        file = output.open("w", encoding="utf-8")
    except OSError as error:
        raise FlightLLMError(f"cannot write {output}: {error.strerror}") from error
    with file:
        yield file
