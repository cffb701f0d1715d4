"""`flightllm serve`: run the server until it is told to stop."""

import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import click

from flightllm.cli.common import TableParameter, config_options, load_config
from flightllm.cli.sources import DEMONSTRATION, named_tables, tell
from flightllm.log import configure_logging

_WEB = "127.0.0.1:8080"
_ADDRESS = re.compile(r"[^/\\]*:\d*|\d+")
"""An address, or half of one, which the configuration then refuses; anything else after `--web` is a file."""


@click.command()
@config_options
@click.option("--listen", metavar="HOST:PORT", help="Address to listen on; port 0 takes any free one.")
@click.option("--web", is_flag=False, flag_value=_WEB, metavar="[HOST:PORT]",
              help=f"Serve the web page too, at {_WEB} if nothing is said. Needs the extra 'web'.")  # fmt: skip
@click.option("--insecure", is_flag=True, help="Listen beyond this machine without TLS or without users.")
@click.option("--no-check", is_flag=True, help="Start without asking the model's endpoint whether it answers.")
@click.argument("sources", nargs=-1, metavar="[FILE|FOLDER|URL]...")
@click.option(
    "--table", "tables", type=TableParameter(), multiple=True, help="Serve a file or folder under a name. Repeatable."
)
@click.option(
    "--supervisor/--no-supervisor",
    default=True,
    help="Replace the server's process when it dies, or leave that to whatever started this command.",
)
def serve(  # noqa: PLR0913 - one argument for each option
    config_file: Path | None,
    engine: str | None,
    model: str | None,
    listen: str | None,
    web: str | None,
    tables: tuple[tuple[str, Path | str], ...],
    sources: tuple[str, ...],
    *,
    insecure: bool,
    no_check: bool,
    supervisor: bool,
) -> None:
    """Serve tables over Arrow Flight SQL.

    Prints `listening grpc://HOST:PORT` once it is ready, and runs until it is told to stop. Does not start where the
    model's endpoint is not there, refuses the key, has no such model or no quota left.

    Each FILE becomes a table of its name. So does each file of a FOLDER, unless all have the same columns: then the
    folder is one table. A file of a FOLDER that cannot be read is left out with a note. A URL is http(s)://…, which is
    downloaded into this folder, or s3://…, in an object store that the configuration lists.

    \b
    flightllm serve tickets.csv reviews.parquet
    flightllm serve --web tickets.csv
    flightllm serve --table movies=movies.parquet --table logs=folder/
    flightllm serve --config gpu --listen 0.0.0.0:31337 --insecure
    flightllm serve --engine openai --model qwen3 --config my.toml
    """
    if web is not None and not _ADDRESS.fullmatch(web):  # it is the first file: the page has its usual address
        web, sources = _WEB, (web, *sources)
    config = load_config(config_file, engine, model, listen, [*tables, *named_tables(sources, tell)])
    if sources and not (config_file or engine or model):
        tell(DEMONSTRATION)
    if web is not None:
        listen_page = (config.http.listen or web) if web == _WEB else web
        config = replace(config, http=replace(config.http, listen=listen_page, page=True))
    if insecure:
        config = replace(config, server=replace(config.server, insecure=True))
    if no_check:
        config = replace(config, server=replace(config.server, check_engine=False))
    configure_logging(config.log)
    if config.recovery.supervisor and supervisor and os.name == "posix":
        from flightllm.server.supervisor import supervise

        sys.exit(supervise(config))
    from flightllm.server.serve import serve as run

    run(config)
