"""Which secrets of the server a model of CREATE MODEL can use: its options can send them to any address."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from flightllm.config import EngineConfig, ModelsConfig
from flightllm.config.secrets import REFERENCE
from flightllm.engines.anthropic.options import read_anthropic_options
from flightllm.engines.openai.options import OpenAIOptions, read_openai_options
from flightllm.engines.providers import provider_at
from flightllm.engines.secrets import table_of
from flightllm.errors import ConfigError


def restricted(config: EngineConfig, models: ModelsConfig) -> EngineConfig:
    """Return the configuration of a model of CREATE MODEL with only the secrets that it can use.

    It can use the variables and files that `[models]` lists. A provider's own address gets the provider's own variable
    without a list. Any other address does not get the key of the environment by default.

    Raises:
        ConfigError: an option refers to another secret; the error names the key to set.
    """
    own = ""
    options = dict(config.options)
    if config.kind in {"openai", "anthropic"}:
        read = read_openai_options(options) if config.kind == "openai" else read_anthropic_options(options).http()
        own = _own_variable(read)
        unset = not (read.api_key or read.api_key_file) and "api_key_env" not in options
        if unset and read.key_variable not in {own, *models.secret_names}:
            options["api_key_env"] = ""
            if read.known_provider.key_env:
                raise ConfigError(_refused("api_key_env", "env", read.key_variable))
    for option, kind, place in _references(options):
        if kind == "env" and place and place not in {own, *models.secret_names}:
            raise ConfigError(_refused(option, kind, place))
        if kind == "file" and not _is_inside(place, models.secret_folders):
            raise ConfigError(_refused(option, kind, place))
    return replace(config, options=MappingProxyType(options))


def _own_variable(options: OpenAIOptions) -> str:
    """Return the key's variable of the provider at an encrypted address; empty for any other address."""
    parts = urlsplit(options.address)
    at = provider_at(options.address)
    hosted = any(f".{parts.hostname}".endswith(f".{end}") for end in at.hosts)  # any program can have a provider's port
    return at.key_env if hosted and parts.scheme == "https" else ""


def _references(options: Mapping[str, object], option: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield each option that refers to a secret, with the kind and place of the secret."""
    for name, value in options.items():
        place = f"{option}.{name}" if option else name
        table = table_of(value)
        if isinstance(table, Mapping):
            yield from _references(table, place)
        elif isinstance(value, list):
            yield from _references({str(number): one for number, one in enumerate(value)}, place)
        elif name == "api_key_env" and isinstance(value, str):
            yield place, "env", value
        elif name == "api_key_file" and isinstance(value, str) and value:
            yield place, "file", value
        elif isinstance(value, str) and (match := REFERENCE.fullmatch(value)):
            yield place, match[1], match[2]


def _is_inside(place: str, folders: tuple[Path, ...]) -> bool:
    """Return whether a file is in one of the folders once links are followed."""
    try:
        found = Path(place).expanduser().resolve()
        return any(found.is_relative_to(folder.resolve()) for folder in folders)
    except (OSError, ValueError, RuntimeError):
        return False


def _refused(option: str, kind: str, place: str) -> str:
    if kind == "env":
        return (
            f"{option}: SQL cannot use the environment variable {place} here, because base_url could send it anywhere:"
            f' add it to secret_names in [models] of the server\'s configuration, as secret_names = ["{place}"]'
        )
    return (
        f"{option}: SQL cannot use this file, because base_url could send it anywhere: put it into a folder that"
        " secret_folders in [models] of the server's configuration lists"
    )
