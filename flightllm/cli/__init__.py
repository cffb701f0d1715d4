"""The `flightllm` command: start a server, query it, inspect it.

Imports: access, catalog, client, common, config, demo, engines, errors, file_formats, flight, flightllm, functions,
llm, log, router, server, session, sql, storage, vector.
"""

import sys
from pathlib import Path

import click

from flightllm import __version__
from flightllm.cli.backup import backup
from flightllm.cli.cluster import cluster
from flightllm.cli.demo import demo
from flightllm.cli.doctor import doctor
from flightllm.cli.grant import grant, revoke
from flightllm.cli.index import index
from flightllm.cli.init import init
from flightllm.cli.inspect import cancel, functions, queries, tables
from flightllm.cli.query import query
from flightllm.cli.recovery import drain, quarantine
from flightllm.cli.serve import serve
from flightllm.cli.shell import shell
from flightllm.cli.stats import stats
from flightllm.cli.user import token, user
from flightllm.common.command_line import OneLineErrors
from flightllm.server.kv_command import kvstore

COMMANDS = (
    init, serve, query, shell, demo, tables, functions, queries, stats, index, cancel, user, token, grant, revoke,
    backup, drain, quarantine, cluster, kvstore, doctor,
)  # fmt: skip


class _Commands(OneLineErrors):
    """The group of commands. Options or a file without a command start the shell, as in duckdb and psql."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `shell` before options that only a command has, and `shell --open` before a file or a folder."""
        first = args[0] if args else ""
        own = {name for option in self.get_params(ctx) for name in option.opts}
        if first.startswith("-") and first not in own:
            args = ["shell", *args]
        elif first and first not in self.commands and ("://" in first or Path(first).exists()):
            args = ["shell", "--open", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="flightllm")
@click.pass_context
def main(context: click.Context) -> None:
    """SQL with language-model calls, served over Arrow Flight SQL.

    \b
    flightllm demo                                   see it work on sample tables
    flightllm init                                   choose a model
    flightllm serve movies.parquet                   start a server
    flightllm query "SELECT count(*) FROM movies"    query it
    flightllm                                        query it from a prompt
    flightllm tickets.csv                            query a file from a prompt
    flightllm doctor                                 find out what is missing
    """
    if context.invoked_subcommand is not None:
        return
    if not sys.stdin.isatty():
        click.echo(context.get_help())
        return
    shell.main([], prog_name="flightllm shell", standalone_mode=False)


for command in COMMANDS:
    main.add_command(command)
main.add_command(cancel, "kill")  # the name in other servers
