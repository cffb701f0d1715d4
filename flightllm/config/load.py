"""The whole configuration: all sections, read from TOML and overridden by command-line options."""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, get_args, get_type_hints

from platformdirs import user_data_path

from flightllm.common.names import CATALOG
from flightllm.common.package_data import packaged_folder
from flightllm.common.redaction import shown_value
from flightllm.config.attached import OF_FILES, AttachedConfig
from flightllm.config.auth import AuthConfig
from flightllm.config.kvstore import KvStoreConfig
from flightllm.config.limits import CacheConfig, LimitsConfig
from flightllm.config.models import EmbeddingConfig, EngineConfig, FunctionsConfig, ModelsConfig
from flightllm.config.observe import HttpConfig, TracingConfig
from flightllm.config.postgres import PostgresConfig
from flightllm.config.recovery import RecoveryConfig
from flightllm.config.secrets import keep_pasted
from flightllm.config.server import LogConfig, ServerConfig
from flightllm.config.storage import ObjectStoreConfig, StorageConfig
from flightllm.config.tables import CsvFile, TablePlace
from flightllm.errors import ConfigError

_DATABASE = re.compile(r"[a-z_][a-z0-9_]*")
_TAKEN = frozenset({CATALOG, "public", "system", "information_schema", "pg_catalog", "main", "temp"})


def default_data_folder() -> Path:
    """Return `FLIGHTLLM_HOME`, or else the operating system's folder for application data."""
    home = os.environ.get("FLIGHTLLM_HOME")
    return Path(home).expanduser().absolute() if home else user_data_path("flightllm", appauthor=False)


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of one server."""

    server: ServerConfig = field(default_factory=ServerConfig)
    auth: AuthConfig = field(default_factory=AuthConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    models: ModelsConfig = field(default_factory=ModelsConfig)
    tables: Mapping[str, TablePlace] = field(default_factory=lambda: MappingProxyType({}))
    """Paths, addresses in object stores as texts, and files that only the command line can name."""
    attached: Mapping[str, AttachedConfig] = field(default_factory=lambda: MappingProxyType({}))
    """Databases that the server reads where they lie, by name."""
    storage: StorageConfig = field(default_factory=StorageConfig)
    functions: FunctionsConfig = field(default_factory=FunctionsConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    cache: CacheConfig = field(default_factory=CacheConfig)
    kvstore: KvStoreConfig = field(default_factory=KvStoreConfig)
    recovery: RecoveryConfig = field(default_factory=RecoveryConfig)
    log: LogConfig = field(default_factory=LogConfig)
    http: HttpConfig = field(default_factory=HttpConfig)
    postgres: PostgresConfig = field(default_factory=PostgresConfig)
    tracing: TracingConfig = field(default_factory=TracingConfig)
    data_folder: Path = field(default_factory=default_data_folder)

    @classmethod
    def load(
        cls,
        path: Path | None = None,
        *,
        listen: str | None = None,
        engine: str | None = None,
        model: str | None = None,
        tables: Mapping[str, TablePlace] | None = None,
    ) -> Self:
        """Read a TOML file, or take the defaults without a file, and apply command-line options over it.

        `path` can also be the bare name of a shipped file (`gpu`). Relative paths in a file start at its folder.

        Raises:
            ConfigError: a key or value is not valid; the error names the file, the key and what is valid there.
        """
        config = cls() if path is None else cls._read(_find(path))
        if listen is not None:
            config = replace(config, server=replace(config.server, listen=listen))
        return config.with_options(engine=engine, model=model, tables=tables)

    def with_options(
        self,
        *,
        engine: str | None = None,
        model: str | None = None,
        tables: Mapping[str, TablePlace] | None = None,
    ) -> Self:
        """Return this configuration with another engine or model, and with more tables.

        Raises:
            ConfigError: there is no such engine.
        """
        config = self
        if engine is not None and engine != config.engine.kind:  # options belong to one kind of engine
            config = replace(config, engine=config.engine.of_kind(engine))
        if model is not None:
            config = replace(config, engine=replace(config.engine, model=model))
        return replace(config, tables=MappingProxyType({**config.tables, **(tables or {})}))

    @classmethod
    def _read(cls, path: Path) -> Self:
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
            keep_pasted(document)
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
                places = {
                    name: _table_place(f"[tables] {name}", place, base) for name, place in _table(key, value).items()
                }
                values[key] = MappingProxyType(places)
            elif key == "attached":
                found = {name: _attached(name, one, base) for name, one in _table(key, value).items()}
                values[key] = MappingProxyType(found)
            elif key == "data_folder":
                values[key] = _value(key, value, Path, base)
            else:
                values[key] = _section(key, types[key], _table(key, value), base)
        return cls(**values)


def _attached(name: str, value: Any, base: Path) -> AttachedConfig:
    """Return an attached database; the path of a file begins at the folder of the configuration."""
    key = f"attached.{name}"
    if not _DATABASE.fullmatch(name) or name in _TAKEN:
        raise ConfigError(f"[{key}]: the name of a database has small letters, digits and _, and is not {CATALOG!r}")
    if "url" not in _table(key, value):
        raise ConfigError(f"[{key}] url: write the address of the database, or the path of its file")
    try:
        found: AttachedConfig = _section(key, AttachedConfig, value, base)
        if found.type in OF_FILES:
            found = replace(found, url=str(base / Path(found.url).expanduser()))
    except ConfigError as error:
        raise ConfigError(str(error) if f"[{key}]" in str(error) else f"[{key}]: {error}") from error
    return found


def _table_place(key: str, value: Any, base: Path) -> TablePlace:
    """Return the place of a table; a TOML table has the place as `path`, and options of its files."""
    if not isinstance(value, dict):
        return _place(key, value, base)
    if "path" not in value:
        raise ConfigError(f"{key}: a table with options has a path, as in {{ path = 'old.csv', delimiter = ';' }}")
    options = ((name, _option(given)) for name, given in value.items() if name != "path")
    return CsvFile(_place(key, value["path"], base), tuple(options))


def _option(value: Any) -> str:
    """Return an option of files as the text that `CsvOptions.of` reads."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        return ",".join(f"{name}={kind}" for name, kind in value.items())
    return str(value)


def _place(key: str, value: Any, base: Path) -> Path | str:
    """Return the path or address of a table."""
    if isinstance(value, str) and "://" in value:
        return value
    path: Path = _value(key, value, Path, base)
    return path


def _find(path: Path) -> Path:
    """Return `path`, or the shipped file with that bare name where `path` does not exist."""
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


def read_engine_keys(table: Mapping[str, object], place: str = "") -> dict[str, Any]:
    """Return the keys of a table that all kinds of engines share, each with its checked value.

    Raises:
        ConfigError: a value has the wrong type; the error puts `place` before the key.
    """
    types = {key: kind for key, kind in get_type_hints(EngineConfig).items() if key != "options" and key in table}
    return {key: _value(f"{place}{key}", _listed(table[key], kind), kind, Path()) for key, kind in types.items()}


def _listed(value: object, kind: Any) -> object:
    """Return the list that a text stands for where SQL has no lists, such as `'a, b'`."""
    if kind != tuple[str, ...] or not isinstance(value, str):
        return value
    return [part.strip() for part in value.split(",") if part.strip()]


_EXPECTED: Mapping[Any, str] = MappingProxyType(
    {
        int: "a whole number",
        int | None: "a whole number",
        float: "a number",
        float | None: "a number",
        bool: "true or false",
        bool | None: "true or false",
        tuple[Path, ...]: "a list of paths",
        tuple[str, ...]: "a list of texts",
    }
)


def _value(key: str, value: Any, kind: Any, base: Path) -> Any:
    """Check one TOML value against a field's type; paths become absolute."""
    if kind in (Path, Path | None) and isinstance(value, str):
        return base / Path(value).expanduser()
    if kind == tuple[Path, ...] and isinstance(value, list):
        return tuple(_value(key, item, Path, base) for item in value)
    if kind == tuple[str, ...] and isinstance(value, list):
        return tuple(_value(key, item, str, base) for item in value)
    if kind == Mapping[str, str]:
        texts = {name: _value(f"{key}.{name}", one, str, base) for name, one in _table(key, value).items()}
        return MappingProxyType(texts)
    if kind == Mapping[str, ObjectStoreConfig]:
        section = key.strip("[]").replace("] ", ".")
        stores = {name: _section(f"{section}.{name}", ObjectStoreConfig, _table(key, table), base)
                  for name, table in _table(key, value).items()}  # fmt: skip
        return MappingProxyType(stores)
    if kind in (str, str | None) and isinstance(value, str):
        return value
    if kind in (int, bool, int | None, bool | None) and type(value) in (kind, *get_args(kind)):
        return value
    if kind in (float, float | None) and type(value) in (int, float):
        return float(value)
    names = {"dict": "a section", "list": "a list", "str": "a text"}
    got = shown_value(value) or names.get(type(value).__name__, type(value).__name__)
    raise ConfigError(f"{key}: expected {_EXPECTED.get(kind, 'a string')}, got {got}")


def _table(key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{key}: expected a section, written [{key}]")
    return value


def _known(section: str, table: Mapping[str, Any], valid: list[str]) -> None:
    place = f"[{section}]" if section else "the top level"
    for key in table:
        if key not in valid:
            raise ConfigError(f"unknown key {key!r} in {place}; valid keys: {', '.join(sorted(valid))}")
