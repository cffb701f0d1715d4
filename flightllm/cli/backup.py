"""`flightllm backup`: copy the data folder, also while the server runs."""

from pathlib import Path

import click

from flightllm.cli.common import CommandError, data_folder_option
from flightllm.config import Config


@click.command()
@data_folder_option
@click.argument("destination", type=click.Path(path_type=Path))
def backup(config_file: Path | None, destination: Path) -> None:
    """Copy the data folder to DESTINATION, which must not exist.

    The copy has tables, users, answers and indexes, whether the server runs or not. It never has half of a change. To
    restore it, stop the server and replace the data folder by the copy.

    \b
    flightllm backup /backups/2026-11-22
    flightllm backup --config my.toml /backups/monday
    """
    from flightllm.storage.backup import back_up

    folder = Config.load(config_file).data_folder
    damaged = back_up(folder, destination.expanduser().absolute())
    click.echo(f"copied {folder} to {destination}")
    if damaged:
        raise CommandError(
            f"the copy is complete, but these files were already damaged or missing: {', '.join(damaged)}"
        )
