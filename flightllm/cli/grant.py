"""`flightllm grant` and `flightllm revoke`: the SQL statements GRANT and REVOKE as commands."""

import click

from flightllm.cli.common import connect, server_options
from flightllm.cli.inspect import print_query
from flightllm.common.command_line import Server

_WORDS = {"ignore_unknown_options": True}


@click.command(context_settings=_WORDS)
@server_options
@click.argument("words", nargs=-1, metavar="SELECT ON TABLE NAME TO USER")
def grant(server: Server, words: tuple[str, ...]) -> None:
    """Grant a privilege, or list the grants.

    \b
    flightllm grant SELECT ON SCHEMA public TO analysts
    flightllm grant SELECT, INSERT ON movies TO alice
    flightllm grant USAGE ON MODEL big TO alice
    """
    if not words:
        print_query(server, "SELECT * FROM system.grants ORDER BY 1, 2, 3, 4, 5")
        return
    _update(server, "GRANT", words)


@click.command(context_settings=_WORDS)
@server_options
@click.argument("words", nargs=-1, required=True, metavar="SELECT ON TABLE NAME FROM USER")
def revoke(server: Server, words: tuple[str, ...]) -> None:
    """Revoke a privilege."""
    _update(server, "REVOKE", words)


def _update(server: Server, verb: str, words: tuple[str, ...]) -> None:
    with connect(server) as client:
        client.query(f"{verb} {' '.join(words)}")
    click.echo("done")
