"""`flightllm index`: list, build, refresh and drop a server's vector indexes."""

import re

import click
from rich.console import Console

from flightllm.cli.common import connect, server_options
from flightllm.cli.inspect import print_query
from flightllm.common.command_line import OneLineErrors, Server
from flightllm.common.names import quoted

_LIST = (
    """SELECT name, "table", "column", type, metric, model, "rows", failed, bytes, status FROM system.vector_indexes"""
)
_COLUMN = re.compile(r"(?P<table>.+)\((?P<column>[^()]+)\)", re.DOTALL)


@click.group(cls=OneLineErrors)
def index() -> None:
    """List, build, refresh and drop vector indexes.

    \b
    flightllm index create plots "movies(movie_info)" -o type=ivf
    flightllm query "SELECT * FROM vector_search('plots', 'a heist in space', top_k => 5)"
    """


@index.command("list")
@server_options
def list_(server: Server) -> None:
    """List the indexes, and whether their tables have changed since."""
    print_query(server, _LIST)


@index.command()
@server_options
@click.option(
    "--option", "-o", "options", multiple=True, metavar="NAME=VALUE", help="type=ivf, metric=l2, … Repeatable."
)
@click.option(
    "--replace", "verb", flag_value="CREATE OR REPLACE", default="CREATE", help="Replace an index of this name."
)
@click.argument("name")
@click.argument("column", metavar="TABLE(COLUMN)")
def create(server: Server, options: tuple[str, ...], verb: str, name: str, column: str) -> None:
    """Build an index over a column of texts, or of lists of numbers."""
    if not (match := _COLUMN.fullmatch(column.strip())):
        raise click.UsageError(f'{column!r} is not of the form TABLE(COLUMN), as in "movies(movie_info)".')
    given = []
    for option in options:
        key, equals, value = option.partition("=")
        if not equals:
            raise click.UsageError(f"--option {option!r} is not of the form NAME=VALUE.")
        given.append(f"{quoted(key.strip())} '{_escaped(value.strip())}'")
    told = f" OPTIONS ({', '.join(given)})" if given else ""
    _update(server, f"{verb} VECTOR INDEX {quoted(name)} ON {match['table']}({match['column']}){told}", name)


@index.command()
@server_options
@click.argument("name")
def refresh(server: Server, name: str) -> None:
    """Bring an index up to date with its table."""
    _update(server, f"REFRESH VECTOR INDEX {quoted(name)}", name)


@index.command()
@server_options
@click.argument("name")
def drop(server: Server, name: str) -> None:
    """Remove an index; its table does not change."""
    with connect(server) as client:
        client.query(f"DROP VECTOR INDEX {quoted(name)}")
    click.echo(f"dropped {name}")


def _update(server: Server, statement: str, name: str) -> None:
    """Run a statement and print the index's new state."""
    with connect(server) as client, Console(stderr=True).status(f"building {name}"):
        client.query(statement)
    print_query(server, f"{_LIST} WHERE name = '{_escaped(name)}'")


def _escaped(text: str) -> str:
    return text.replace("'", "''")
