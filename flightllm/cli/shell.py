"""`flightllm` without a command, on a terminal: a shell for SQL."""

import sys
from contextlib import ExitStack
from pathlib import Path

import click

from flightllm.cli.common import Server, SettingParameter, config_options, connect, load_config, server_options
from flightllm.cli.opened import opened_server
from flightllm.cli.price import ASK_ABOVE, confirmed
from flightllm.cli.query import run_text
from flightllm.cli.running import Interrupted, interruptible
from flightllm.cli.sources import named_tables, tell
from flightllm.cli.statements import split_statements
from flightllm.client import Client
from flightllm.errors import FlightLLMError

_HELP = """\\d          list tables
\\d TABLE    list the columns of a table
\\df         list the AI functions
\\q          leave; Ctrl-D too
SQL;        run a statement: a semicolon ends it, Enter alone begins a new line
"""
_TABLES = """SELECT table_schema AS "schema", table_name AS "table", table_type AS type FROM information_schema.tables
WHERE table_schema <> 'information_schema' ORDER BY table_schema = 'system', 1, 2"""


@click.command()
@server_options
@click.option("--set", "settings", type=SettingParameter(), multiple=True, help="Setting for all queries. Repeatable.")
@click.option(
    "--open",
    "sources",
    multiple=True,
    metavar="FILE|FOLDER",
    help="Ask files without a server; each becomes a table of its name. Repeatable.",
)
@config_options
@click.option("--yes", is_flag=True, help="Never ask before a statement that is predicted to be dear.")
@click.option(
    "--ask-above",
    type=click.FloatRange(0),
    default=ASK_ABOVE,
    show_default=True,
    metavar="DOLLARS",
    help="Ask before a statement that is predicted to cost more.",
)
def shell(  # noqa: PLR0913 - one argument for each option
    *,
    server: Server,
    settings: tuple[tuple[str, str], ...],
    sources: tuple[str, ...],
    config_file: Path | None,
    engine: str | None,
    model: str | None,
    yes: bool,
    ask_above: float,
) -> None:
    """Ask a server, or files, from a prompt.

    `flightllm` alone does the same. Tab completes tables, columns and functions; a semicolon ends a statement. Ctrl-C
    cancels the statement that runs. \\? shows the commands of the shell. Input that is no terminal is run, up to the
    first statement that fails.

    \b
    flightllm shell --open tickets.csv
    """
    with ExitStack() as stack:
        if sources:
            config = load_config(config_file, engine, model, tables=named_tables(sources, tell))
            server = Server(stack.enter_context(opened_server(config)))
        elif config_file or engine or model:
            raise click.UsageError("--config, --engine and --model are for --open: a server has its own.")
        client = stack.enter_context(connect(server, dict(settings)))
        above = None if yes else ask_above
        if sys.stdin.isatty():
            from flightllm.cli.prompt import statements  # slow to import

            for text in statements(client):
                for statement in split_statements(text):
                    _run(client, statement, above)
        elif not all(_run(client, text, None) for text in split_statements(sys.stdin.read())):
            stack.close()
            sys.exit(1)


def _run(client: Client, text: str, ask_above: float | None) -> bool:
    """Run a statement or a command of the shell, and tell whether it went well; what is wrong is printed."""
    if text.startswith("\\"):
        command, _, name = text.rstrip("; ").partition(" ")
        statement = _statement_of(command, name.strip())
        if statement is None:
            return True
        text = statement
    try:
        sql = text.rstrip().rstrip(";")
        if ask_above is None or confirmed(client, sql, ask_above):
            interruptible(client, lambda: run_text(client, sql, "table"))
    except (FlightLLMError, Interrupted) as error:
        message = error.format_message() if isinstance(error, Interrupted) else f"error: {error}"
        click.echo(message, err=True)
        return False
    return True


def _statement_of(command: str, name: str) -> str | None:
    """Return the SQL that a command of the shell stands for; one without SQL is done here."""
    if command == r"\d":
        return f"DESCRIBE {name}" if name else _TABLES
    if command == r"\df":
        from flightllm.cli.prompt import function_names

        click.echo("\n".join(function_names()))
        return None
    if command != r"\?":
        click.echo(f"there is no command {command}", err=True)
    click.echo(_HELP, nl=False)
    return None
