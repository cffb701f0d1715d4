"""The models of a server: inference engine, embedding model, and the functions that call them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Self

from flightllm.config.checks import at_least_one, one_of
from flightllm.config.engine_kinds import EMBEDDERS, ENGINES
from flightllm.errors import ConfigError

REASONING = ("off", "low", "medium", "high")
REPLICA_KEYS = ("kind", "model", "max_in_flight")
"""The keys that each replica of an engine can set for itself, besides its options; all replicas share the others."""
_NO_OPTIONS: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Which inference engine answers; `options` are the keys of `[engine]` that only this kind of engine knows.

    Prices are per million tokens, in any one currency: of prompts, of the prompt tokens that a prefix cache serves (by
    default the same as for prompts), and of answers. `reasoning` is how long a model thinks where a call does not set
    it; the default is not at all.

    With `repair`, the model is called once more for an answer that is not valid, and told what is wrong. An answer is
    not valid if it is not one of the options, not a number in its range, or not JSON of its schema.

    `prompt_format` names the format in `flightllm.llm.prompt_formats` for questions and fields; `auto` takes the one
    that suits the model.

    `proxy_for` names the models whose rows this one can decide as a cheaper proxy, where a call makes a promise.
    """

    kind: str = "local"
    model: str = "demo"
    max_in_flight: int = 128
    options: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    price_input: float | None = None
    price_cached: float | None = None
    price_output: float | None = None
    prompt_format: str = "auto"
    reasoning: str | None = None
    repair: bool = True
    proxy_for: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        one_of("[engine] kind", self.kind, ENGINES)
        if self.reasoning is not None:
            one_of("[engine] reasoning", self.reasoning, REASONING)
        at_least_one("engine", max_in_flight=self.max_in_flight)
        for key in ("price_input", "price_cached", "price_output"):
            price = getattr(self, key)
            if price is not None and not 0 <= price < math.inf:
                raise ConfigError(f"[engine] {key}: expected a number from 0 on, got {price}")

    def of_kind(self, kind: str, options: Mapping[str, object] = _NO_OPTIONS) -> Self:
        """Return the same settings for an engine of another kind, without prices and without this kind's options."""
        return replace(self, kind=kind, options=options, price_input=None, price_cached=None, price_output=None)


@dataclass(frozen=True, slots=True)
class EmbeddingConfig:
    """Which model turns texts into vectors, loaded at first use; `options` are the keys that only this kind knows."""

    kind: str = "local"
    model: str = "minilm"
    max_in_flight: int = 512
    options: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        one_of("[embedding] kind", self.kind, EMBEDDERS)
        at_least_one("embedding", max_in_flight=self.max_in_flight)


@dataclass(frozen=True, slots=True)
class FunctionsConfig:
    """Folders of AI functions besides the shipped ones; no two files can define the same name."""

    folders: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelsConfig:
    """The secrets that models of CREATE MODEL can use: environment variables by name, and files in folders.

    Its options can send a secret to any address, so SQL can use no other secret of the server. `aliases` gives models
    further names, which texts from elsewhere have: `{"gpt-4o": "default"}`. A model of CREATE MODEL comes before an
    alias with its name.
    """

    secret_names: tuple[str, ...] = ()
    secret_folders: tuple[Path, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        for alias, name in self.aliases.items():
            if not alias.strip() or not name.strip():
                raise ConfigError(f"[models] aliases: {alias!r} = {name!r} has an empty name")
            if name in self.aliases:
                raise ConfigError(f"[models] aliases: {alias!r} means {name!r}, which is an alias: name its model")
