"""Settings: frozen dataclasses, read from TOML and checked once at start, then passed to constructors."""

import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, get_type_hints

from platformdirs import user_data_path

from flightllm.errors import ConfigError
from flightllm.resources import packaged_folder

ENGINES = ("local", "vllm", "openai", "fake")
EMBEDDERS = ("local", "vllm", "openai", "fake")
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("console", "json")


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Where the server listens and who may connect.

    `token` refers to the bearer token clients must send, `env:NAME` or `file:PATH`; it is never written in the file.
    """

    listen: str = "127.0.0.1:31337"
    token: str | None = None

    def __post_init__(self) -> None:
        _ = self.address
        if self.token is not None and not self.token.startswith(("env:", "file:")):
            raise ConfigError("[server] token: write env:NAME or file:PATH, never the token itself")

    @property
    def address(self) -> tuple[str, int]:
        """Return `listen` as host and port; port 0 means any free one."""
        host, _, port = self.listen.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65_535:
            raise ConfigError(f"[server] listen: expected HOST:PORT, got {self.listen!r}")
        return host.strip("[]"), int(port)

    def read_token(self) -> str | None:
        """Return the token that `token` refers to, or None where no token is asked for.

        Raises:
            ConfigError: the variable is not set, the file cannot be read, or it is empty.
        """
        if self.token is None:
            return None
        kind, _, place = self.token.partition(":")
        try:
            value = os.environ[place] if kind == "env" else Path(place).expanduser().read_text(encoding="utf-8")
        except KeyError as error:
            raise ConfigError(f"[server] token: set the environment variable {place}") from error
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise ConfigError(f"[server] token: cannot read the file {place}: {reason}") from error
        if not value.strip():
            raise ConfigError(f"[server] token: {self.token!r} is empty")
        return value.strip()


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Which inference engine answers; `options` are the keys of `[engine]` that only this kind of engine knows.

    Prices are per million tokens, in any one currency: of prompts, of their part that a prefix cache serves (without a
    price of its own as much as the rest), and of answers.
    """

    kind: str = "local"
    model: str = "demo"
    max_in_flight: int = 128
    options: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    price_input: float | None = None
    price_cached: float | None = None
    price_output: float | None = None

    def __post_init__(self) -> None:
        _one_of("[engine] kind", self.kind, ENGINES)
        _at_least_one("engine", max_in_flight=self.max_in_flight)
        for key in ("price_input", "price_cached", "price_output"):
            price = getattr(self, key)
            if price is not None and not 0 <= price < math.inf:
                raise ConfigError(f"[engine] {key}: expected a number from 0 on, got {price}")


@dataclass(frozen=True, slots=True)
class EmbeddingConfig:
    """Which model turns texts into vectors; `options` are the keys that only this kind knows. Loaded at first use."""

    kind: str = "local"
    model: str = "minilm"
    max_in_flight: int = 512
    options: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        _one_of("[embedding] kind", self.kind, EMBEDDERS)
        _at_least_one("embedding", max_in_flight=self.max_in_flight)


@dataclass(frozen=True, slots=True)
class FunctionsConfig:
    """Folders of AI functions beside the shipped ones; no two files may define the same name."""

    folders: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """What one query, one upload or the whole server may use.

    `memory_bytes` holds for each query's relational work by itself, not for all queries together; what an engine, the
    tables in memory and the batches on their way take comes on top.
    """

    sql_bytes: int = 1_048_576
    sql_terms: int = 2_000
    concurrent_queries: int = 64
    upload_bytes: int = 1 << 30
    memory_bytes: int = 2 << 30
    spill_folder: Path | None = None
    batch_bytes: int = 2 << 20

    def __post_init__(self) -> None:
        _at_least_one("limits", **{f.name: getattr(self, f.name) for f in fields(self) if f.type is int})


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """Where answers are kept between queries; without `path`, `answers.sqlite` in the data folder."""

    enabled: bool = True
    path: Path | None = None
    max_bytes: int = 4 << 30

    def __post_init__(self) -> None:
        _at_least_one("cache", max_bytes=self.max_bytes)


@dataclass(frozen=True, slots=True)
class LogConfig:
    """How much the server logs to standard error, and in which form."""

    level: str = "info"
    format: str = "console"

    def __post_init__(self) -> None:
        _one_of("[log] level", self.level, LOG_LEVELS)
        _one_of("[log] format", self.format, LOG_FORMATS)


def default_data_folder() -> Path:
    """Return `FLIGHTLLM_HOME`, or else the operating system's folder for application data."""
    home = os.environ.get("FLIGHTLLM_HOME")
    return Path(home).expanduser().absolute() if home else user_data_path("flightllm", appauthor=False)


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of one server."""

    server: ServerConfig = field(default_factory=ServerConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    tables: Mapping[str, Path] = field(default_factory=lambda: MappingProxyType({}))
    functions: FunctionsConfig = field(default_factory=FunctionsConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    cache: CacheConfig = field(default_factory=CacheConfig)
    log: LogConfig = field(default_factory=LogConfig)
    data_folder: Path = field(default_factory=default_data_folder)

    @classmethod
    def load(
        cls,
        path: Path | None = None,
        *,
        listen: str | None = None,
        engine: str | None = None,
        model: str | None = None,
        tables: Mapping[str, Path] | None = None,
    ) -> Self:
        """Read a TOML file, or the defaults without one, and put command-line settings over it.

        `path` may also be the bare name of a shipped file (`gpu`). Relative paths in a file start at its folder.

        Raises:
            ConfigError: naming the file, the key and what is valid there.
        """
        config = cls() if path is None else cls._read(_find(path))
        if listen is not None:
            config = replace(config, server=replace(config.server, listen=listen))
        if engine is not None and engine != config.engine.kind:  # the other kind's options mean nothing to this one
            chosen = EngineConfig(kind=engine, model=config.engine.model, max_in_flight=config.engine.max_in_flight)
            config = replace(config, engine=chosen)
        if model is not None:
            config = replace(config, engine=replace(config.engine, model=model))
        return replace(config, tables=MappingProxyType({**config.tables, **(tables or {})}))

    @classmethod
    def _read(cls, path: Path) -> Self:
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
            return cls._of(document, path.absolute().parent)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: cannot be read: {error}") from error
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path}: not valid TOML: {error}") from error
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error

    @classmethod
    def _of(cls, document: Mapping[str, Any], base: Path) -> Self:
        _known("", document, [f.name for f in fields(cls)])
        types = get_type_hints(cls)
        values: dict[str, Any] = {}
        for key, value in document.items():
            if key == "tables":
                paths = {
                    name: _value(f"[tables] {name}", path, Path, base) for name, path in _table(key, value).items()
                }
                values[key] = MappingProxyType(paths)
            elif key == "data_folder":
                values[key] = _value(key, value, Path, base)
            else:
                values[key] = _section(key, types[key], _table(key, value), base)
        return cls(**values)


def _find(path: Path) -> Path:
    """Return `path`, or the shipped file of that bare name where there is no such file."""
    shipped = packaged_folder("config") / f"{path}.toml"
    if path.exists() or len(path.parts) > 1 or path.suffix or not shipped.exists():
        return path
    return shipped


def _section(name: str, kind: type[Any], table: Mapping[str, Any], base: Path) -> Any:
    """Build the section dataclass `kind` from a TOML table."""
    types = get_type_hints(kind)
    known = [key for key in types if key != "options"]
    if "options" in types:
        own = {key: value for key, value in table.items() if key in known}
        rest = MappingProxyType({key: value for key, value in table.items() if key not in known})
        return kind(**{k: _value(f"[{name}] {k}", v, types[k], base) for k, v in own.items()}, options=rest)
    _known(name, table, known)
    return kind(**{key: _value(f"[{name}] {key}", value, types[key], base) for key, value in table.items()})


_EXPECTED: Mapping[Any, str] = MappingProxyType(
    {
        int: "a whole number",
        float | None: "a number",
        bool: "true or false",
        tuple[Path, ...]: "a list of paths",
    }
)


def _value(key: str, value: Any, kind: Any, base: Path) -> Any:
    """Check one TOML value against a field's type; paths become absolute."""
    if kind in (Path, Path | None) and isinstance(value, str):
        return base / Path(value).expanduser()
    if kind == tuple[Path, ...] and isinstance(value, list):
        return tuple(_value(key, item, Path, base) for item in value)
    if kind in (str, str | None) and isinstance(value, str):
        return value
    if kind in (int, bool) and type(value) is kind:
        return value
    if kind == float | None and type(value) in (int, float):
        return float(value)
    raise ConfigError(f"{key}: expected {_EXPECTED.get(kind, 'a string')}, got {value!r}")


def _table(key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{key}: expected a section, written [{key}]")
    return value


def _known(section: str, table: Mapping[str, Any], valid: list[str]) -> None:
    place = f"[{section}]" if section else "the top level"
    for key in table:
        if key not in valid:
            raise ConfigError(f"unknown key {key!r} in {place}; valid keys: {', '.join(sorted(valid))}")


def _one_of(key: str, value: str, valid: tuple[str, ...]) -> None:
    if value not in valid:
        raise ConfigError(f"{key}: expected one of {', '.join(valid)}; got {value!r}")


def _at_least_one(section: str, **values: int) -> None:
    for key, value in values.items():
        if value < 1:
            raise ConfigError(f"[{section}] {key}: expected at least 1, got {value}")
