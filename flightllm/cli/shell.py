"""`flightllm` without a command, on a terminal: a shell for SQL."""

import sys
from contextlib import ExitStack
from dataclasses import replace

import click

from flightllm.cli.common import Files, SettingParameter, connect, file_options, server_options
from flightllm.cli.opened import asked_server
from flightllm.cli.shell_commands import Shell
from flightllm.cli.statements import split_statements
from flightllm.common.command_line import CommandError, Server
from flightllm.errors import FlightLLMError


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
    statement. Ctrl-C cancels the running statement. `help` lists the commands of the shell. Input that does not come
    from a terminal is run up to the first statement that fails.

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
            Shell(client, None).run_script(script)
            return
        from flightllm.cli.prompt import statements  # slow to import

        opened_shell = Shell(client, ask_above)
        for text in statements(client):
            for statement in split_statements(text):
                _run(opened_shell, statement)


def _run(opened: Shell, text: str) -> None:
    """Run a statement or a command, and print its error if it fails."""
    try:
        opened.run(text)
    except FlightLLMError as error:
        CommandError(str(error)).show()
    except click.ClickException as error:
        error.show()
