"""`flightllm grant` and `flightllm revoke`: the SQL statements of these names, as commands."""

import click

from flightllm.cli.common import connect, server_options
from flightllm.cli.inspect import print_query

_WORDS = {"ignore_unknown_options": True}


@click.command(context_settings=_WORDS)
@server_options
@click.argument("words", nargs=-1, metavar="SELECT ON TABLE NAME TO USER")
def grant(uri: str, token: str | None, words: tuple[str, ...]) -> None:
    """Grant a privilege, or list what is granted.

    \b
    flightllm grant SELECT ON SCHEMA public TO analysts
    flightllm grant SELECT, INSERT ON movies TO alice
    flightllm grant USAGE ON MODEL big TO alice
    """
    if not words:
        print_query(uri, token, "SELECT * FROM system.grants ORDER BY 1, 2, 3, 4, 5")
        return
    _update(uri, token, "GRANT", words)


@click.command(context_settings=_WORDS)
@server_options
@click.argument("words", nargs=-1, required=True, metavar="SELECT ON TABLE NAME FROM USER")
def revoke(uri: str, token: str | None, words: tuple[str, ...]) -> None:
    """Take a privilege back."""
    _update(uri, token, "REVOKE", words)


def _update(uri: str, token: str | None, verb: str, words: tuple[str, ...]) -> None:
    with connect(uri, token) as client:
        client.query(f"{verb} {' '.join(words)}")
    click.echo("done")
