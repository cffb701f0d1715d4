"""The table `system.settings`: the configuration, the defaults of session settings, and the sessions' changes."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from flightllm.common.package_data import packaged_folder
from flightllm.common.redaction import redacted
from flightllm.config import Config
from flightllm.config.session_settings import Settings
from flightllm.engines.secrets import is_address, shown_address, shown_options
from flightllm.observe.session_log import SessionLog

SETTINGS = pa.schema([(n, pa.string()) for n in ("name", "value", "source", "session_id", "user", "description")])
_SECRET = re.compile(r"key|token|secret|password|header", re.IGNORECASE)
_SECTION = re.compile(r"\[(?P<name>\w+)\](?: *#.*)?")
_KEY = re.compile(r"(?:# )?(?P<name>\w+) = (?P<value>(?:\"[^\"]*\"|[^#\"])*)(?:# *(?P<text>.*))?")
_MORE = re.compile(r"#  +(?:# )?(?P<text>.*)")


class SettingsTable:
    """The settings of a server and its sessions. For secrets and paths, it only shows whether they are set."""

    schemas: Mapping[str, pa.Schema] = MappingProxyType({"settings": SETTINGS})

    def __init__(self, config: Config, sessions: SessionLog) -> None:
        self._sessions = sessions
        told = descriptions()
        self._rows = [
            {"name": redacted(name), "value": redacted(value), "source": source, "description": told.get(name, "")}
            for name, value, source in _configured(config)
        ]
        self._told = Settings.descriptions()

    def snapshot(self, _name: str) -> pa.Table:
        """Return the rows: the server's settings, the defaults of sessions, and each session's changes."""
        rows = [*self._rows, *(self._row(name, value, "default") for name, value in Settings().as_text().items())]
        for record in self._sessions.records():
            owner = {"session_id": record.session_id, "user": record.user}
            rows += [{**self._row(name, value, "session"), **owner} for name, value in record.settings().items()]
        return pa.Table.from_pylist(rows, schema=SETTINGS)

    def _row(self, name: str, value: str, source: str) -> dict[str, str]:
        return {"name": f"flightllm.{name}", "value": value, "source": source, "description": self._told[name]}


def descriptions() -> dict[str, str]:
    """Return the comments in the shipped `default.toml` about each key, by section and name.

    A key without a comment shares the comment of the previous key.
    """
    told: dict[str, str] = {}
    section = name = ""
    for line in (packaged_folder("config") / "default.toml").read_text(encoding="utf-8").splitlines():
        if match := _SECTION.fullmatch(line.strip()):
            section, name = f"{match['name']}.", ""
        elif match := _KEY.fullmatch(line):
            before, name = told.get(name, ""), section + match["name"]
            told[name] = (match["text"] or before).strip()
        elif name and (match := _MORE.fullmatch(line)):
            told[name] = f"{told[name]} {match['text'].strip()}".strip()
        else:
            name = ""
    return told


def _configured(config: Config) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and source of every key of the configuration."""
    for key in fields(config):
        section, default = getattr(config, key.name), getattr(Config(), key.name)
        if not is_dataclass(section):
            yield _shown(key.name, section, default)
            continue
        for part in fields(section):
            given, usual = getattr(section, part.name), getattr(default, part.name)
            if part.name == "options":
                for option, value in shown_options(given).items():
                    yield _shown(f"{key.name}.{option}", value, None)
            else:
                yield _shown(f"{key.name}.{part.name}", given, usual)


def _shown(name: str, value: Any, default: Any) -> tuple[str, str, str]:
    source = "default" if value == default else "config"
    if name == "attached":  # users without a grant there must not learn the names
        return name, "set" if value else "not set", source
    if isinstance(value, Mapping):
        return name, ", ".join(sorted(value)), source
    hidden = _SECRET.search(name.rpartition(".")[2]) or isinstance(value, Path | tuple)
    if isinstance(value, str) and (Path(value).is_absolute() or value.startswith(("env:", "file:"))):
        hidden = True
    if value is None or value == ():
        return name, "not set", source
    if hidden and not isinstance(value, bool | int | float):
        return name, "set", source
    if isinstance(value, str) and is_address(name.rpartition(".")[2], value):
        value = shown_address(value)
    return name, str(value).lower() if isinstance(value, bool) else str(value), source
