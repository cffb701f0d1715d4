"""The configuration of a database that opens in this process."""

import os
from dataclasses import replace
from pathlib import Path

from flightllm.config import Config, ServerConfig

OWN_CONFIG = Path("flightllm.toml")
"""The file that `flightllm init` writes."""


def configuration_here(given: Path | None) -> tuple[Path | None, str]:
    """Return the given configuration, or else `flightllm.toml` of the current folder, and a note about that file.

    A file of another user is left out: in a folder that many users write to, it could run that user's code.
    """
    if given is not None or not OWN_CONFIG.is_file():
        return given, ""
    if os.name == "posix" and OWN_CONFIG.stat().st_uid not in {os.getuid(), 0}:
        return None, f"{OWN_CONFIG} here belongs to another user and is left out"
    return OWN_CONFIG, f"{OWN_CONFIG} of this folder is the configuration"


def for_folder(config: Config, folder: Path, *, reads_files: bool) -> Config:
    """Return a configuration whose tables are in `folder`, and whose answers are in the cache of `config`.

    So no prompt is answered twice. With `reads_files`, statements can read each file that this user can read.
    """
    config.data_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    cache = replace(config.cache, path=config.cache.path or config.data_folder / "answers.sqlite")
    own = replace(config, server=ServerConfig("127.0.0.1:0"), cache=cache, data_folder=folder)
    if not reads_files:
        return own
    return replace(own, storage=replace(own.storage, external_folders=(Path(Path.cwd().anchor),)))
