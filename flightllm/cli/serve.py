"""`flightllm serve`: run the server until it is told to stop."""

from dataclasses import replace
from pathlib import Path

import click
import pyarrow as pa

from flightllm.cli.common import TableParameter, config_options, load_config
from flightllm.errors import ConfigError
from flightllm.log import configure_logging


@click.command()
@config_options
@click.option("--listen", metavar="HOST:PORT", help="Address to listen on; port 0 takes any free one.")
@click.option("--insecure", is_flag=True, help="Listen beyond this machine without TLS or without users.")
@click.option("--table", "tables", type=TableParameter(), multiple=True, help="Serve a file or folder. Repeatable.")
def serve(
    config_file: Path | None,
    engine: str | None,
    model: str | None,
    listen: str | None,
    tables: tuple[tuple[str, Path | str], ...],
    *,
    insecure: bool,
) -> None:
    """Serve tables over Arrow Flight SQL.

    Prints `listening grpc://HOST:PORT` once it is ready, and runs until it is told to stop.

    \b
    flightllm serve --table movies=movies.parquet --table logs=folder/
    flightllm serve --config gpu --listen 0.0.0.0:31337 --insecure
    flightllm serve --engine openai --model qwen3 --config my.toml
    """
    config = load_config(config_file, engine, model, listen, tables)
    if insecure:
        config = replace(config, server=replace(config.server, insecure=True))
    configure_logging(config.log)
    from flightllm.flight.serve import serve as run

    try:
        run(config)
    except pa.ArrowException as error:
        if "did not start" not in str(error):
            raise
        address = config.server.listen
        raise ConfigError(
            f"cannot listen on {address}: in use, or not an address of this machine; see --listen"
        ) from error
