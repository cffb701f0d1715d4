"""`flightllm serve`: run the server until it is told to stop."""

import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import click

from flightllm.cli.common import TableParameter, config_options, csv_option, found_config, load_config, tell
from flightllm.connection.sources import DEMONSTRATION, named_tables, with_options
from flightllm.log import configure_logging, redact_tracebacks

_WEB = "127.0.0.1:8080"
_ADDRESS = re.compile(r"[^/\\]*:\d*|\d+")
"""An address, or a part of an address that the configuration then refuses; other texts after `--web` are files."""


@click.command()
@config_options
@click.option("--listen", metavar="HOST:PORT", help="Address to listen on; port 0 takes any free port.")
@click.option("--web", is_flag=False, flag_value=_WEB, metavar="[HOST:PORT]",
              help=f"Serve the web page too, by default at {_WEB}. Needs the extra 'web'.")  # fmt: skip
@click.option("--postgres-listen", metavar="HOST:PORT", help="Serve PostgreSQL's clients too, at this address.")
@click.option("--insecure", is_flag=True, help="Listen beyond this machine without TLS or without users.")
@click.option("--no-check", is_flag=True, help="Start without checking that the model's endpoint answers.")
@click.argument("sources", nargs=-1, metavar="[FILE|FOLDER|URL]...")
@csv_option
@click.option(
    "--table", "tables", type=TableParameter(), multiple=True, help="Serve a file or folder under a name. Repeatable."
)
@click.option(
    "--supervisor/--no-supervisor",
    default=True,
    help="Replace the server's process when it dies; --no-supervisor leaves that to the caller.",
)
def serve(  # noqa: PLR0913, PLR0917 - one argument for each option
    config_file: Path | None,
    engine: str | None,
    model: str | None,
    listen: str | None,
    web: str | None,
    postgres_listen: str | None,
    tables: tuple[tuple[str, Path | str], ...],
    sources: tuple[str, ...],
    *,
    csv: tuple[tuple[str, str], ...],
    insecure: bool,
    no_check: bool,
    supervisor: bool,
) -> None:
    """Serve tables over Arrow Flight SQL.

    It prints `listening grpc://HOST:PORT` once it is ready, and runs until it is told to stop. It does not start if the
    model's endpoint cannot be reached, rejects the key, does not have the model or has no quota left.

    Each FILE becomes a table with its name. So does each file of a FOLDER, except if they are numbered parts of one
    table: then the folder is one table. A file of a FOLDER that cannot be read is left out with a note. A URL can be
    http(s)://…, which is downloaded into this folder. It can also be s3://…, if the configuration lists the object
    store.

    \b
    flightllm serve tickets.csv reviews.parquet
    flightllm serve --web tickets.csv
    flightllm serve --postgres-listen 127.0.0.1:5432 tickets.csv
    flightllm serve --table movies=movies.parquet --table logs=folder/
    flightllm serve --config gpu --listen 0.0.0.0:31337 --insecure
    flightllm serve --engine openai --model qwen3 --config my.toml
    """
    if web is not None and not _ADDRESS.fullmatch(web):  # the text is the first file; the page uses its default address
        web, sources = _WEB, (web, *sources)
    config_file = found_config(config_file)
    named = [(name, with_options(place, csv)) for name, place in tables]
    config = load_config(config_file, engine, model, listen, [*named, *named_tables(sources, tell, csv)])
    if sources and not (config_file or engine or model):
        tell(DEMONSTRATION)
    if web is not None:
        listen_page = (config.http.listen or web) if web == _WEB else web
        config = replace(config, http=replace(config.http, listen=listen_page, page=True))
    if postgres_listen is not None:
        config = replace(config, postgres=replace(config.postgres, listen=postgres_listen))
    if insecure:
        config = replace(config, server=replace(config.server, insecure=True))
    if no_check:
        config = replace(config, server=replace(config.server, check_engine=False))
    configure_logging(config.log)
    redact_tracebacks()
    if config.recovery.supervisor and supervisor and os.name == "posix":
        from flightllm.server.supervisor import supervise

        sys.exit(supervise(config))
    from flightllm.server.serve import serve as run

    run(config)
