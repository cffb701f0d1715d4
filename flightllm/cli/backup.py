"""`flightllm backup`: copy the data folder, also while the server runs."""

from pathlib import Path

import click

from flightllm.cli.common import data_folder_option
from flightllm.common.command_line import CommandError
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
    from flightllm.session.startable import reasons_not_to_start
    from flightllm.storage.backup import back_up

    folder = Config.load(config_file).data_folder
    destination = destination.expanduser().absolute()
    damaged = back_up(folder, destination)
    click.echo(f"copied {folder} to {destination}")
    faults = [f"these files were already damaged or missing: {', '.join(damaged)}"] if damaged else []
    faults += [f"no server starts with it: {reason}" for reason in reasons_not_to_start(destination)]
    if faults:
        raise CommandError(f"the copy is complete, but {'; '.join(faults)}")
