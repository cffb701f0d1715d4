"""The `flightllm` command: start a server, query it, inspect it.

Imports: access, catalog, client, common, config, connection, demo, engines, errors, evaluation, file_formats, flight,
flightllm, functions, llm, log, mcp, router, server, session, sql, storage, vector.
"""

import re
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final

import click

from flightllm import __version__
from flightllm.cli.statements import is_statement, names_file
from flightllm.common.collection import no_collection
from flightllm.common.command_line import OneLineErrors

COMMANDS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "backup": ("cli.backup:backup", "Copy the data folder to DESTINATION, which must not exist."),
        "batches": (
            "cli.batches:batches",
            "List, await, cancel, read and remove statements that wait for a batch endpoint.",
        ),
        "cancel": ("cli.inspect:cancel", "Stop a running query."),
        "cluster": ("cli.cluster:cluster", "Show the replicas of a server's engine."),
        "demo": ("cli.demo:demo", "See it work: AI queries on sample tables."),
        "doctor": ("cli.doctor:doctor", "Find out what is missing, and what to do."),
        "drain": ("cli.recovery:drain", "End a server once its queries have finished."),
        "evaluate": ("cli.evaluate:evaluate", "Measure an AI call against labels, and choose its model and options."),
        "functions": ("cli.inspect:functions", "List the AI functions."),
        "grant": ("cli.grant:grant", "Grant a privilege, or list the grants."),
        "index": ("cli.index:index", "List, build, refresh and drop vector indexes."),
        "init": ("cli.init:init", "Choose a model, and write a configuration for it."),
        "kill": ("cli.inspect:cancel", "Stop a running query."),  # the name in other servers
        "kvstore": ("server.kv_command:kvstore", "Serve a store of KV caches, or inspect one."),
        "mcp": ("cli.mcp:mcp", "Serve a server's tables, or files, to agents over the Model Context Protocol (MCP)."),
        "quarantine": ("cli.recovery:quarantine", "List the statements that are refused after a crash."),
        "queries": ("cli.inspect:queries", "List the latest queries, newest first."),
        "query": ("cli.query:query", "Run SQL on a server, or on files."),
        "revoke": ("cli.grant:revoke", "Revoke a privilege."),
        "serve": ("cli.serve:serve", "Serve tables over Arrow Flight SQL."),
        "shell": ("cli.shell:shell", "Query a server, or files, from a prompt."),
        "stats": ("cli.stats:stats", "Show what a server is doing."),
        "tables": ("cli.inspect:tables", "List a server's tables and columns."),
        "token": ("cli.user:token", "Make, list and revoke API tokens."),
        "user": ("cli.user:user", "Add, change and list users."),
    }
)
"""The commands by name: where the code of each is, below `flightllm`, and the first sentence of its help.

A command is imported when it runs, because all of them together take a second to import.
"""


_FILE: Final = re.compile(
    r"[*?]|\.(?:csv|tsv|tab|txt|dat|json|jsonl|ndjson|parquet|xlsx|sqlite|db|zip|md)(?:\.\w+)?\Z", re.IGNORECASE
)
"""Matches a pattern, or the name of a file that perhaps does not exist."""


class _Commands(OneLineErrors):
    """The group of commands. Options or a file without a command start the shell, as in duckdb and psql."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; return None for an unknown name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        with no_collection():
            command: click.Command = getattr(import_module(f"flightllm.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `shell` before options that only a command has and before SQL, and `shell --open` before a file."""
        first = args[0] if args else ""
        own = {name for option in self.get_params(ctx) for name in option.opts}
        if (first.startswith("-") and first not in own) or is_statement(first):
            args = ["shell", *args]
        elif first and first not in COMMANDS and ("://" in first or names_file(first) or _FILE.search(first)):
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
    flightllm < script.sql                           run a script
    flightllm doctor                                 find out what is missing
    """
    if context.invoked_subcommand is not None:
        return
    from flightllm.cli.shell import shell

    with shell.make_context("shell", [], context) as inner:
        shell.invoke(inner)
