"""`flightllm drain` and `quarantine`: end a server gracefully, and let statements run again after a crash."""

import click
from rich.table import Table
from rich.text import Text

from flightllm.cli.common import connect, server_options
from flightllm.common.command_line import Server
from flightllm.connection.render import console_of, put


@click.command()
@server_options
def drain(server: Server) -> None:
    """End a server once its queries have finished.

    The server accepts no new queries. After `[recovery] drain_seconds`, it cancels the queries that still run.
    """
    with connect(server) as client:
        running = client.drain()
    click.echo(f"draining: {running} {'query still runs' if running == 1 else 'queries still run'}")


@click.command()
@server_options
@click.option("--lift", metavar="NAME", help="Let this statement, or this user's statements, run again.")
def quarantine(server: Server, lift: str | None) -> None:
    """List the statements that are refused after a crash.

    They were running when the server's process died, and can run again after `[recovery] quarantine_seconds`. The
    server can also refuse all statements of one user. It does so after several crashes if only this user had such
    statements at each of the crashes.
    """
    with connect(server) as client:
        if lift is not None:
            client.lift(lift)
            click.echo(f"{lift} can run again")
            return
        refused = client.quarantine()
    table = Table(header_style="bold", show_edge=False, pad_edge=False)
    for column in ("name", "seconds", "user", "query_id", "sql"):
        table.add_column(column, overflow="fold")
    for one in refused:
        table.add_row(one["name"], str(one["seconds"]), one["user"], one["query_id"], Text(one["sql"]))
    put(console_of(), table)
