"""All attached databases of a server, and the file that keeps those of ATTACH."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any, Final

import structlog

from flightllm.attached.database import AttachedDatabase
from flightllm.common.atomic_files import write_atomically
from flightllm.config.attached import AttachedConfig
from flightllm.errors import ConfigError

_log = structlog.get_logger(__name__)
FILE: Final = "attached.json"
_FORMAT: Final = 1


class AttachedDatabases:
    """The attached databases by name. Look-ups take no lock; a change replaces the mapping. Thread-safe."""

    def __init__(self, folder: Path | None = None, configured: Mapping[str, AttachedConfig] | None = None) -> None:
        """Read the databases that earlier runs attached; those of the configuration come before them.

        Raises:
            ConfigError: the file is damaged, or a later version wrote it.
        """
        self._path = None if folder is None else folder / FILE
        self._lock = Lock()
        self.changing = Lock()
        """Held while a statement attaches or detaches a database, so that no other one takes its name meanwhile."""
        self.configured = frozenset(configured or ())
        """The names in the server's configuration."""
        self._stored = _read(self._path)
        configs = {**self._stored, **(configured or {})}
        self.all: Mapping[str, AttachedDatabase] = {
            name: AttachedDatabase(name, config) for name, config in configs.items()
        }
        """The databases by name."""

    def add(self, database: AttachedDatabase) -> None:
        """Add a database; its configuration is kept on disk unless it holds a secret."""
        with self._lock:
            self.all = {**self.all, database.name: database}
            if not database.config.holds_secret:
                self._store({**self._stored, database.name: database.config})

    def remove(self, name: str) -> AttachedDatabase | None:
        """Remove a database and return it."""
        with self._lock:
            found = self.all.get(name)
            self.all = {other: one for other, one in self.all.items() if other != name}
            if name in self._stored:
                self._store({other: one for other, one in self._stored.items() if other != name})
        return found

    def close(self) -> None:
        """Release all sources."""
        for database in self.all.values():
            database.close()

    def _store(self, configs: Mapping[str, AttachedConfig]) -> None:
        if self._path is not None:
            text = json.dumps({"format": _FORMAT, "databases": {name: asdict(one) for name, one in configs.items()}})
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._path, text.encode())
        self._stored = dict(configs)


def _read(path: Path | None) -> dict[str, AttachedConfig]:
    if path is None:
        return {}
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
        if found["format"] != _FORMAT:
            raise ConfigError(f"{path}: a later version of FlightLLM wrote it; start that version")
        return {name: AttachedConfig(**one) for name, one in found["databases"].items()}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise ConfigError(f"{path}: it is damaged; move it away, and run ATTACH again for each database") from error
