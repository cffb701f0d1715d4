"""`flightllm stats`: the current work of a server, live."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from flightllm.cli.common import connect, server_options
from flightllm.client import BOOKKEEPING, Client
from flightllm.common.command_line import Server
from flightllm.connection.render import console_of, text_of

_MOST_RUNNING = 20
_OTHERS = f"NOT starts_with(sql, '{BOOKKEEPING.strip()}')"
_RUNNING = f"""{BOOKKEEPING}
SELECT query_id, "user", seconds, progress, "rows", calls, answered, cache_hits, prompts_expected, sql
FROM system.queries WHERE status = 'running' AND {_OTHERS} ORDER BY started_at LIMIT {_MOST_RUNNING}
"""
_TOTALS = f"""{BOOKKEEPING}
SELECT count(*) AS statements, coalesce(sum(CAST(status = 'running' AS INT)), 0) AS running,
       coalesce(sum(CAST(status = 'failed' AS INT)), 0) AS failed, coalesce(sum(calls), 0) AS calls,
       coalesce(sum(CASE WHEN status = 'running' THEN calls - answered ELSE 0 END), 0) AS in_flight,
       coalesce(sum(cache_hits), 0) AS reused, coalesce(sum(prompt_tokens), 0) AS prompt_tokens,
       coalesce(sum(cached_tokens), 0) AS cached_tokens, coalesce(sum(completion_tokens), 0) AS completion_tokens
FROM system.queries WHERE {_OTHERS}
"""
_SERVER = f"""{BOOKKEEPING}
SELECT (SELECT count(*) FROM system.sessions) AS sessions,
       (SELECT CAST(value AS BIGINT) FROM system.settings WHERE name = 'engine.max_in_flight')
           * (SELECT greatest(count(*), 1) FROM system.replicas WHERE model = 'default') AS window,
       (SELECT value FROM system.settings WHERE name = 'engine.kind') AS engine
"""


@dataclass(frozen=True, slots=True)
class StatsSnapshot:
    """The content of the system tables at one time; the figures cover the statements that the server remembers."""

    at: float
    totals: Mapping[str, Any]
    server: Mapping[str, Any]
    running: list[dict[str, Any]]

    @classmethod
    def of(cls, client: Client) -> "StatsSnapshot":
        """Read the system tables of a server."""
        return cls(time.monotonic(), _rows(client, _TOTALS)[0], _rows(client, _SERVER)[0], _rows(client, _RUNNING))

    def calls_per_second(self, before: "StatsSnapshot | None") -> float | None:
        """Return the prompts sent per second since `before`; None if that is unknown."""
        if before is None or self.totals["calls"] < before.totals["calls"]:
            return None
        return float(self.totals["calls"] - before.totals["calls"]) / max(self.at - before.at, 1e-9)


@click.command()
@server_options
@click.option("--once", is_flag=True, help="Print the current figures once, and exit.")
@click.option("--every", default=1.0, show_default=True, type=click.FloatRange(0.1), help="Seconds between updates.")
def stats(server: Server, *, once: bool, every: float) -> None:
    """Show what a server is doing.

    It shows running queries with their progress, model calls, reuse of answers and prefixes, and the load of the
    engine, until Ctrl-C. The figures cover the statements that the server remembers: the last thousand, and those that
    run.
    """
    console = console_of()
    with connect(server) as client:
        before, now = None, StatsSnapshot.of(client)
        if once:
            console.print(view(now, None))
            return
        with Live(view(now, None), console=console, auto_refresh=False, screen=console.is_terminal) as live:
            while True:
                time.sleep(every)
                before, now = now, StatsSnapshot.of(client)
                live.update(view(now, before), refresh=True)


def view(now: StatsSnapshot, before: StatsSnapshot | None) -> RenderableType:
    """Return the view of a snapshot; the previous snapshot gives the rates."""
    totals, server = now.totals, now.server
    known = totals["calls"] + totals["reused"]
    rate = now.calls_per_second(before)
    figures = {
        "statements": f"{totals['statements']:,}, {totals['running']:,} running, {totals['failed']:,} failed",
        "sessions": f"{server['sessions']:,}",
        "model calls": f"{totals['calls']:,}" + ("" if rate is None else f", {rate:,.1f} per second"),
        "answers reused": _share(totals["reused"], known),
        "prefix hits": _share(totals["cached_tokens"], totals["prompt_tokens"]),
        "tokens": f"{totals['prompt_tokens']:,} in, {totals['completion_tokens']:,} out",
    }
    if server["engine"] is not None:  # only admins can see the configuration
        figures["engine"] = f"{server['engine']}: {totals['in_flight']:,} of {server['window']:,} prompts in flight"
    top = Table.grid(padding=(0, 2))
    for name, text in figures.items():
        top.add_row(Text(name, style="bold"), Text(text))
    return Group(top, Text(), _table(now.running))


def _table(running: list[dict[str, Any]]) -> RenderableType:
    if not running:
        return Text("no query is running")
    table = Table(header_style="bold", show_edge=False, pad_edge=False)
    for column in ("query_id", "user", "seconds", "progress", "rows", "calls"):
        table.add_column(column, no_wrap=True, justify="left" if column in {"query_id", "user"} else "right")
    table.add_column("sql", no_wrap=True, overflow="ellipsis", ratio=1)
    for row in running:
        progress = "" if row["progress"] is None else f"{row['progress']:.0%}"
        calls = f"{row['answered'] + row['cache_hits']:,} / {row['prompts_expected']:,}"
        cells = [row["query_id"], row["user"], f"{row['seconds']:.1f}", progress, f"{row['rows']:,}", calls]
        table.add_row(*(Text(cell) for cell in cells), Text(text_of(row["sql"])))
    return table


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({part / whole:.1%})" if whole else "0"


def _rows(client: Client, sql: str) -> list[dict[str, Any]]:
    _, batches = client.query(sql)
    return [row for batch in batches for row in batch.to_pylist()]
