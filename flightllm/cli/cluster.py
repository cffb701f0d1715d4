"""`flightllm cluster`: show the replicas of a server's engine."""

import click
from rich.table import Table
from rich.text import Text

from flightllm.cli.common import connect, server_options
from flightllm.client import BOOKKEEPING, Client
from flightllm.common.command_line import Server
from flightllm.connection.render import console_of, put

_REPLICAS = f"{BOOKKEEPING} SELECT * FROM system.replicas ORDER BY model, number"
_ENGINE = f"{BOOKKEEPING} SELECT engine, model FROM system.models WHERE is_default"
_LEFT = ("replica", "state")


@click.group()
def cluster() -> None:
    """Show the replicas of a server's engine."""


@cluster.command()
@server_options
def status(server: Server) -> None:
    """Show each replica.

    It shows whether the replica is up, its load, and the part of its prompts that was in its cache. On a server with
    users, only admins can see it. A * marks a cache whose content is known from the engine's events; without *, it is
    estimated.
    """
    with connect(server) as client:
        rows = _rows(client, _REPLICAS)
        engines = [] if rows else _rows(client, _ENGINE)
    if not rows:
        engine = f" ({engines[0]['engine']}, model {engines[0]['model']})" if engines else ""
        click.echo(f"no cluster here: the server has one engine{engine}, or you cannot see its replicas")
        return
    console = console_of()
    table = Table(header_style="bold", show_edge=False, pad_edge=False)
    columns = ("replica", "state", "in flight", "waiting", "load s", "answered", "prefix hits", "cached blocks")
    for column in columns:
        table.add_column(column, justify="left" if column in _LEFT else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in _cells(row)))
    put(console, table)
    for row in rows:
        if row["error"]:
            click.echo(f"{row['name']}: {row['error']}")
    click.echo(f"policy {rows[0]['policy']}")


def _cells(row: dict[str, object]) -> list[str]:
    prompt_tokens, cached_tokens = int(str(row["prompt_tokens"])), int(str(row["cached_tokens"]))
    capacity = "" if row["cache_blocks"] is None else f" of {row['cache_blocks']:,}"
    return [
        str(row["name"]),
        str(row["state"]),
        f"{row['in_flight']:,}",
        f"{row['waiting']:,}",
        f"{row['load_seconds']:.1f}",
        f"{row['answered']:,}",
        f"{cached_tokens / prompt_tokens:.1%}" if prompt_tokens else "",
        f"{row['held_blocks']:,}{capacity}{'*' if row['kv_events'] else ''}",
    ]


def _rows(client: Client, sql: str) -> list[dict[str, object]]:
    _, batches = client.query(sql)
    return [row for batch in batches for row in batch.to_pylist()]
