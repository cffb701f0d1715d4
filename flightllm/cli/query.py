"""`flightllm query`: run one SQL text and show or write its result."""

import re
import sys
from contextlib import ExitStack, nullcontext
from pathlib import Path

import click

from flightllm.cli.common import Files, SettingParameter, connect, file_options, server_options
from flightllm.cli.opened import asked_server
from flightllm.cli.results import FORMS, Output
from flightllm.cli.run import run_statement
from flightllm.cli.statements import Statement, errors_at, located_statements
from flightllm.cli.writers import BINARY, WRITERS, form_of
from flightllm.client import Client
from flightllm.common.command_line import Server

_SETTING = re.compile(r"\s*(?:re)?set\b", re.IGNORECASE)


@click.command()
@server_options
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMS),
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
    results = Output(format_ or _form_of(output), output)
    if results.form in BINARY and output is None and sys.stdout.isatty():
        raise click.UsageError(f"{results.form} is binary: name a file with --output.")
    statements = list(located_statements(text))
    if len(statements) > 1 and (output is not None or results.form in BINARY):
        raise click.UsageError(f"A file can hold the rows of only one statement, and the text has {len(statements)}.")
    with ExitStack() as stack:
        server = stack.enter_context(asked_server(files, server, text))
        client = stack.enter_context(connect(server, dict(settings)))
        for one, line in statements or [Statement(text)]:
            with errors_at(line) if len(statements) > 1 else nullcontext():
                _run(client, one, results, ask_above)
    if statements and _SETTING.match(statements[-1].text):
        click.echo("a setting lasts for one session, which here is this command only: use --set key=value", err=True)


def _run(client: Client, text: str, output: Output, ask_above: float | None) -> None:
    """Run a statement, unless the user does not want its cost."""
    if not run_statement(client, text, output, ask_above if sys.stdin.isatty() else None):
        raise click.exceptions.Exit(0)


def _form_of(output: Path | None) -> str:
    """Return the form for the ending of a file's name.

    Raises:
        UsageError: the ending belongs to no form.
    """
    if output is None:
        return "table"
    if (form := form_of(output)) is None:
        ending = output.suffix.lower().removeprefix(".")
        raise click.UsageError(
            f"{output} ends in {ending}, which is not a format: use --format with one of {', '.join(WRITERS)}."
        )
    return form
