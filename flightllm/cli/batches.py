"""`flightllm batches`: the statements that wait for a provider's batch endpoint."""

import time
from pathlib import Path
from typing import Any, Final

import click

from flightllm.cli.common import connect, server_options
from flightllm.cli.inspect import print_query
from flightllm.cli.results import FORMS, Output
from flightllm.cli.run import run_statement
from flightllm.cli.writers import BINARY, form_of
from flightllm.client import BOOKKEEPING, Client
from flightllm.common.command_line import Server
from flightllm.errors import EngineError, NotFoundError
from flightllm.sql.literals import text_literal

_LIST: Final = f"""{BOOKKEEPING}
SELECT id, state, prompts, sent, answered, failed, price_estimated, price, created, error, sql FROM system.batches
ORDER BY created DESC
"""
_ENDED: Final = frozenset({"done", "failed", "cancelled"})
_LONGEST_PAUSE: Final = 30.0


@click.group()
def batches() -> None:
    """List, await, cancel, read and remove statements that wait for a batch endpoint.

    A statement waits if the session has `SET flightllm.delivery = 'batch'`, or `flightllm query` has
    `--set delivery=batch`.
    """


@batches.command("list")
@server_options
def list_(server: Server) -> None:
    """List the statements, the newest first."""
    print_query(server, _LIST, width=60)


@batches.command()
@server_options
@click.option("--seconds", type=click.FloatRange(0), help="The longest wait. Without it, the command waits for days.")
@click.argument("batch_id")
def wait(server: Server, seconds: float | None, batch_id: str) -> None:
    """Wait until a statement has ended.

    The exit code is 0 if the statement is done, 1 if it failed or was cancelled, and 2 if it still runs.
    """
    until = None if seconds is None else time.monotonic() + seconds
    pause = 0.2
    with connect(server) as client:
        while (row := _row(client, batch_id))["state"] not in _ENDED:
            left = _LONGEST_PAUSE if until is None else until - time.monotonic()
            if left <= 0:
                click.echo(f"{batch_id} is {row['state']}: {row['answered']:,} of {row['prompts']:,} prompts answered")
                raise click.exceptions.Exit(2)
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, _LONGEST_PAUSE)
    if row["state"] != "done":
        why = f": {row['error']}" if row["error"] else ""
        raise EngineError(f"{batch_id} is {row['state']}{why}")
    click.echo(f"{batch_id} is done: {row['rows'] or 0:,} rows, {row['answered']:,} prompts")


@batches.command()
@server_options
@click.argument("batch_id")
def cancel(server: Server, batch_id: str) -> None:
    """Cancel a statement.

    The answers that came stay in the answer cache. It is not an error if the statement has ended.
    """
    with connect(server) as client:
        client.cancel_batch(batch_id)
        state = _row(client, batch_id)["state"]
    click.echo(f"{batch_id} is {state}")


@batches.command()
@server_options
@click.argument("batch_id")
def remove(server: Server, batch_id: str) -> None:
    """Remove a statement that has ended, with its rows and prompts.

    The server does so itself after `deferred_seconds`. The answer cache keeps the answers.
    """
    with connect(server) as client:
        client.remove_batch(batch_id)
    click.echo(f"{batch_id} is removed")


@batches.command()
@server_options
@click.option(
    "--format", "format_", type=click.Choice(FORMS), help="[default: by the ending of the output, else table]"
)
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Write to a file instead of standard output.")
@click.argument("batch_id")
def result(server: Server, format_: str | None, output: Path | None, batch_id: str) -> None:
    """Show or write the rows of a query that is done."""
    found = (None if output is None else form_of(output)) if format_ is None else format_
    shown = Output(found or "table", output)
    if shown.form in BINARY and output is None:
        raise click.UsageError(f"{shown.form} is binary: name a file with --output.")
    with connect(server) as client:
        run_statement(client, f"SELECT * FROM batch_result({text_literal(batch_id)})", shown, None)


def _row(client: Client, batch_id: str) -> dict[str, Any]:
    sql = f"{BOOKKEEPING}SELECT * FROM system.batches WHERE id = {text_literal(batch_id)}"
    _, found = client.query(sql)
    rows: list[dict[str, Any]] = [row for batch in found for row in batch.to_pylist()]
    if not rows:
        raise NotFoundError(f"there is no deferred statement {batch_id!r} of yours; see flightllm batches list")
    return rows[0]
