"""`flightllm tables`, `functions`, `queries`, `cancel`: inspect a server and stop its queries."""

from pathlib import Path
from textwrap import fill

import click
from rich.table import Table
from rich.text import Text

from flightllm.cli.common import config_options, connect, found_config, load_config, server_options
from flightllm.client import BOOKKEEPING
from flightllm.common.command_line import Server
from flightllm.connection.render import as_table, console_of, first_rows, put
from flightllm.functions.base import AIFunction, ScalarFunction

_TABLES = """
SELECT t.table_schema AS "schema", t.table_name AS "table", count(c.column_name) AS columns,
       string_agg(c.column_name, ', ' ORDER BY c.ordinal_position) AS names
FROM information_schema.tables t JOIN information_schema.columns c USING (table_catalog, table_schema, table_name)
WHERE t.table_schema <> 'information_schema' GROUP BY 1, 2 ORDER BY 1, 2
"""
_QUERIES = f"""{BOOKKEEPING}
SELECT query_id, status, started_at, seconds, "rows", calls, cache_hits, failed_rows, sql
FROM system.queries WHERE NOT starts_with(sql, '{BOOKKEEPING.strip()}') ORDER BY started_at DESC LIMIT {{limit}}
"""
_WIDTH = 100


@click.command()
@server_options
def tables(server: Server) -> None:
    """List a server's tables and columns."""
    print_query(server, _TABLES)


@click.command()
@server_options
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1), help="Most queries shown.")
def queries(server: Server, limit: int) -> None:
    """List the latest queries, newest first.

    It shows the model calls of each query, from the table system.queries.
    """
    print_query(server, _QUERIES.format(limit=limit), width=80)


@click.command()
@server_options
@click.argument("query_id")
def cancel(server: Server, query_id: str) -> None:
    """Stop a running query.

    `flightllm queries` shows the ids. It is not an error if the query has already ended.
    """
    with connect(server) as client:
        status = client.cancel(query_id)
    ended = {"done": "is already done", "failed": "has already failed"}.get(status)
    click.echo(f"{query_id} {ended}" if ended else f"cancelled {query_id}")


@click.command()
@config_options
def functions(config_file: Path | None, engine: str | None, model: str | None) -> None:
    """List the AI functions.

    These are the shipped functions, and functions in the folders of a configuration. The command needs no server.
    """
    from flightllm.functions.base import COMMON_OPTIONS
    from flightllm.functions.registry import FunctionRegistry

    config = load_config(found_config(config_file), engine, model)
    table = Table(header_style="bold", show_edge=False, pad_edge=False)
    for column in ("call", "also as", "returns", "what it does"):
        table.add_column(column, overflow="fold")
    for function in FunctionRegistry.load(config.functions.folders):
        call, aliases = _calls(function)
        table.add_row(*(Text(text) for text in (call, aliases, function.returns, function.summary)))
    put(console_of(), table)
    options = ", ".join(f"{option.name} =>" for option in COMMON_OPTIONS)
    click.echo("\n" + fill(f"Every AI function also takes {options}", width=_WIDTH, break_on_hyphens=False))


def _calls(function: AIFunction | ScalarFunction) -> tuple[str, str]:
    """Return a function's usage without the options that all functions have, and its other names."""
    if isinstance(function, ScalarFunction):
        return function.signature(), ""
    fields = " [, field…]" if function.fields else ""
    orders = (function.aliases or {}).items()
    return function.usage(), ", ".join(
        f"{name}({', '.join(order)}{fields})" if order else name for name, order in orders
    )


def print_query(server: Server, sql: str, width: int | None = None) -> None:
    """Print the rows of a query as a table."""
    with connect(server) as client:
        schema, batches = client.query(sql)
        rows, _ = first_rows(batches)
    put(console_of(10_000), as_table(schema, rows, width))
