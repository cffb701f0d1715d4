"""`flightllm` without a command, on a terminal: a shell for SQL."""

import re
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import click

from flightllm.cli.common import Files, SettingParameter, connect, file_options, server_options
from flightllm.cli.opened import asked_server
from flightllm.cli.shell_commands import Shell, read_script
from flightllm.cli.statements import is_statement, names_file, reads_scripts, split_statements
from flightllm.common.command_line import CommandError, Server
from flightllm.errors import FlightLLMError

_FILE = re.compile(r"\S*[\w*?\]]\.\w+|[^\s;]*/[^\s;]*")
"""Matches an argument that looks like a file or a pattern, and not like SQL."""


@click.command()
@server_options
@click.option("--set", "settings", type=SettingParameter(), multiple=True, help="Setting for all queries. Repeatable.")
@click.option("--command", "-c", "commands", multiple=True, metavar="SQL", help="Run SQL, and leave. Repeatable.")
@click.option(
    "--file",
    "-f",
    "scripts",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Run the statements of a file after those of --command, and leave. Repeatable.",
)
@file_options
@click.argument("opened", nargs=-1, metavar="[FILE|FOLDER|URL|SQL]...")
def shell(
    *,
    server: Server,
    settings: tuple[tuple[str, str], ...],
    commands: tuple[str, ...],
    scripts: tuple[Path, ...],
    files: Files,
    ask_above: float | None,
    opened: tuple[str, ...],
) -> None:
    """Query a server, or files, from a prompt.

    `flightllm` without a command does the same. Tab completes tables, columns and functions; a semicolon ends a
    statement. Ctrl-C cancels the running statement. `help` lists the commands of the shell. Input that does not come
    from a terminal is run up to the first statement that fails. So are --command, --file and SQL after the files.

    \b
    flightllm shell tickets.csv
    flightllm tickets.csv "SELECT count(*) FROM tickets"
    """
    texts = [one for place, one in enumerate(opened) if _is_sql(one, later=place > 0 or bool(files.sources))]
    files = replace(files, sources=(*files.sources, *(one for one in opened if one not in texts)))
    script = None
    if given := [*commands, *texts, *map(read_script, scripts)]:
        script = ";\n".join(given)
    elif not sys.stdin.isatty():
        script = sys.stdin.read()
    if script is not None and not script.strip() and not files.sources:  # nobody can type, and there is nothing to run
        click.echo(click.get_current_context().find_root().get_help())
        return
    with ExitStack() as stack:
        server = stack.enter_context(asked_server(files, server, None if script and reads_scripts(script) else script))
        client = stack.enter_context(connect(server, dict(settings)))
        if script is not None:
            Shell(client, None).run_script(script)
            return
        from flightllm.cli.prompt import statements  # slow to import

        opened_shell = Shell(client, ask_above)
        for text in statements(client):
            for statement in split_statements(text):
                _run(opened_shell, statement)


def _is_sql(text: str, *, later: bool) -> bool:
    """Return whether an argument is SQL and no file; `later` means that files come before it, as in duckdb."""
    if names_file(text) or "://" in text or (later and _FILE.fullmatch(text)):
        return False
    return later or is_statement(text)


def _run(opened: Shell, text: str) -> None:
    """Run a statement or a command, and print its error if it fails."""
    try:
        opened.run(text)
    except FlightLLMError as error:
        CommandError(str(error)).show()
    except click.ClickException as error:
        error.show()
