"""`flightllm` without a command, on a terminal: a shell for SQL."""

import sys
from contextlib import ExitStack
from dataclasses import replace

import click

from flightllm.cli.common import Files, SettingParameter, connect, file_options, server_options
from flightllm.cli.opened import asked_server
from flightllm.cli.price import confirmed
from flightllm.cli.query import run_text
from flightllm.cli.running import Interrupted, interruptible
from flightllm.cli.statements import errors_at, located_statements, split_statements
from flightllm.client import Client
from flightllm.common.command_line import Server
from flightllm.errors import FlightLLMError

_HELP = """\\d, \\dt     list tables
\\dS         list system tables
\\d TABLE    list the columns of a table
\\df         list the AI functions
\\q          leave; Ctrl-D too
SQL;        run a statement: a semicolon ends it, Enter without a semicolon begins a new line
"""
_TABLES = """SELECT table_schema AS "schema", table_name AS "table", table_type AS type FROM information_schema.tables
WHERE table_schema NOT IN ('information_schema', 'system') ORDER BY 1, 2"""
_SYSTEM = """SELECT table_schema AS "schema", table_name AS "table" FROM information_schema.tables
WHERE table_schema IN ('information_schema', 'system') ORDER BY 1, 2"""


@click.command()
@server_options
@click.option("--set", "settings", type=SettingParameter(), multiple=True, help="Setting for all queries. Repeatable.")
@file_options
@click.argument("opened", nargs=-1, metavar="[FILE|FOLDER|URL]...")
def shell(
    *,
    server: Server,
    settings: tuple[tuple[str, str], ...],
    files: Files,
    ask_above: float | None,
    opened: tuple[str, ...],
) -> None:
    """Query a server, or files, from a prompt.

    `flightllm` without a command does the same. Tab completes tables, columns and functions; a semicolon ends a
    statement. Ctrl-C cancels the running statement. \\? shows the commands of the shell. Input that does not come from
    a terminal is run up to the first statement that fails.

    \b
    flightllm shell tickets.csv
    """
    files = replace(files, sources=(*files.sources, *opened))
    script = None if sys.stdin.isatty() else sys.stdin.read()
    if script is not None and not script.strip():  # nobody can type, and there is nothing to run
        click.echo(click.get_current_context().find_root().get_help())
        return
    with ExitStack() as stack:
        server = stack.enter_context(asked_server(files, server))
        client = stack.enter_context(connect(server, dict(settings)))
        if script is not None:
            _run_script(client, script)
            return
        from flightllm.cli.prompt import statements  # slow to import

        for text in statements(client):
            for statement in split_statements(text):
                _run(client, statement, ask_above)


def _run_script(client: Client, script: str) -> None:
    """Run the statements of a script up to the first that fails.

    Raises:
        CommandError: a statement failed; the error has its line.
    """
    for text, line in located_statements(script):
        with errors_at(line):
            _execute(client, text, None)


def _run(client: Client, text: str, ask_above: float | None) -> None:
    """Run a statement or a shell command, and print its error if it fails."""
    try:
        _execute(client, text, ask_above)
    except (FlightLLMError, Interrupted) as error:
        message = error.format_message() if isinstance(error, Interrupted) else f"error: {error}"
        click.echo(message, err=True)


def _execute(client: Client, text: str, ask_above: float | None) -> None:
    """Run a statement or a shell command."""
    if text.startswith("\\"):
        command, _, name = text.rstrip("; ").partition(" ")
        statement = _statement_of(command, name.strip())
        if statement is None:
            return
        text = statement
    sql = text.rstrip().rstrip(";")
    if confirmed(client, sql, ask_above):
        interruptible(client, lambda: run_text(client, sql, "table"))


def _statement_of(command: str, name: str) -> str | None:
    """Return the SQL of a shell command; commands without SQL are run here."""
    if command == r"\dS":
        return _SYSTEM
    if command in {r"\d", r"\dt"}:
        return f"DESCRIBE {name}" if name else _TABLES
    if command == r"\df":
        from flightllm.cli.prompt import function_names

        click.echo("\n".join(function_names()))
        return None
    if command != r"\?":
        click.echo(f"there is no command {command}", err=True)
    click.echo(_HELP, nl=False)
    return None
