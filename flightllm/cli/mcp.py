"""`flightllm mcp`: serve tables to agents over the Model Context Protocol."""

import math
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from flightllm.cli.common import Files, client_of, config_options, csv_option, server_options
from flightllm.cli.opened import asked_server
from flightllm.client import Client
from flightllm.common.command_line import Server, read_login
from flightllm.config import LogConfig
from flightllm.errors import MissingExtraError


class _Limit(click.ParamType[float | None]):
    """A number from 0 on, or `none`, which is passed on as None."""

    name = "limit"

    def __init__(self, kind: type[int] | type[float]) -> None:
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        """Read the number."""
        if str(value).lower() == "none":
            return None
        try:
            limit = self._kind(value)
        except ValueError:
            limit = -1
        if not 0 <= limit < math.inf:
            self.fail(f"{value!r} is not a number from 0 on, or none", param, ctx)
        return limit


@click.command()
@server_options
@csv_option
@config_options
@click.option("--listen", metavar="HOST:PORT", help="Serve over HTTP, at /mcp; without it, over standard input.")
@click.option("--allow-changes", is_flag=True, help="Let agents change tables; by default they can only read.")
@click.option("--max-rows", default=1_000, show_default=True, type=click.IntRange(1, 10_000),
              help="The most rows of an answer.")  # fmt: skip
@click.option("--max-cost", default="1", show_default=True, type=_Limit(float), metavar="DOLLARS|none",
              help="Refuse a statement with a higher predicted cost, if a price is known.")  # fmt: skip
@click.option("--max-calls", default="1000", show_default=True, type=_Limit(int), metavar="CALLS|none",
              help="Refuse a statement with more predicted model calls.")  # fmt: skip
@click.option("--host", "names", multiple=True, metavar="NAME",
              help="A further host name under which --listen answers. Repeatable.")  # fmt: skip
@click.option(
    "--tls-certificate", type=click.Path(path_type=Path), metavar="FILE", help="Certificate of --listen (PEM)."
)
@click.option("--tls-key", type=click.Path(path_type=Path), metavar="FILE", help="Key of --listen (PEM).")
@click.option("--insecure", is_flag=True, help="Listen beyond this machine without TLS.")
@click.argument("sources", nargs=-1, metavar="[FILE|FOLDER|URL]…")
def mcp(  # noqa: PLR0913 - one argument for each option
    *,
    server: Server,
    csv: tuple[tuple[str, str], ...],
    config_file: Path | None,
    engine: str | None,
    model: str | None,
    listen: str | None,
    allow_changes: bool,
    max_rows: int,
    max_cost: float | None,
    max_calls: int | None,
    names: tuple[str, ...],
    tls_certificate: Path | None,
    tls_key: Path | None,
    insecure: bool,
    sources: tuple[str, ...],
) -> None:
    """Serve a server's tables, or files, to agents over the Model Context Protocol (MCP).

    Agents get the tools list_tables, describe, query, estimate_cost and search. They have the rights and budgets of the
    user whose login the command has. With --listen each agent sends a login of its own, in the header Authorization.

    \b
    flightllm mcp --uri grpc+tls://db.example.com:31337
    flightllm mcp tickets.csv
    flightllm mcp --listen 127.0.0.1:8765
    """
    try:
        from flightllm.log import configure_logging
        from flightllm.mcp.callers import Callers
        from flightllm.mcp.limits import Limits
        from flightllm.mcp.serving import HttpPlace, HttpServer, serve_stdio
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("flightllm"):
            raise
        raise MissingExtraError("`flightllm mcp`", "mcp") from error
    configure_logging(LogConfig(level="warning"))
    limits = Limits(max_rows, max_cost, max_calls, changes=allow_changes)
    _check_login(server, listen)
    place = None if listen is None else HttpPlace(listen, names, tls_certificate, tls_key, insecure=insecure)
    if place is not None:
        place.check()
    elif names or tls_certificate or tls_key or insecure:
        raise click.UsageError("--host, --tls-certificate, --tls-key and --insecure work only with --listen.")
    if not sources and (config_file or engine or model or csv):
        raise click.UsageError(
            "--config, --engine, --model and --csv work only with files: a running server has its own."
        )
    files = Files(sources, config_file, engine, model, csv)
    with ExitStack() as stack:
        # A text that an agent reads can mislead it, so other files stay closed to it.
        asked = stack.enter_context(asked_server(files, server, reads_files=False))
        if place is None:
            login = read_login(asked.user)  # once: there is nobody to ask later
            callers = stack.enter_context(closing(Callers(lambda _: client_of(asked, login=login))))
            serve_stdio(callers, limits)
            return

        def connect(authorization: str) -> Client:
            from flightllm.mcp.callers import credentials

            login, token = credentials(authorization)
            return client_of(replace(asked, token=token, user=None), login=login)

        callers = stack.enter_context(closing(Callers(connect)))
        http = HttpServer(callers, limits, place)
        click.echo(f"listening {http.address}")
        if sources:
            click.echo(f"agents send the header `Authorization: Bearer {asked.token}`")
        http.run()


def _check_login(server: Server, listen: str | None) -> None:
    """Check that the agents of an HTTP server do not share a login.

    Raises:
        UsageError: the command has a login.
    """
    if listen is not None and (server.user or server.token):
        raise click.UsageError(
            "With --listen each agent sends a login of its own: leave out --user and --token, and unset FLIGHTLLM_USER"
            " and FLIGHTLLM_TOKEN."
        )
