"""The models of a server: inference engine, embeddings, and the functions that ask them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Self

from flightllm.config.checks import at_least_one, one_of
from flightllm.errors import ConfigError

ENGINES = ("local", "vllm", "openai", "cluster", "ray", "fake")
REASONING = ("off", "low", "medium", "high")
REPLICA_KEYS = ("kind", "model", "max_in_flight")
"""The keys that each replica of an engine can have of its own, beside its options; all replicas share the others."""
EMBEDDERS = ("local", "vllm", "openai", "fake")
_NO_OPTIONS: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Which inference engine answers; `options` are the keys of `[engine]` that only this kind of engine knows.

    Prices are per million tokens, in any one currency: of prompts, of their part that a prefix cache serves (without a
    price of its own as much as the rest), and of answers. `reasoning` is how long a model thinks where a call does not
    say it: not at all by default.

    With `repair` an answer that is none of the options, no number in its range or no JSON of its schema is asked for
    once more, with what is wrong with it. That is one call more for such an answer.

    `prompt_format` says how questions and fields are put to the model, by a name in
    `flightllm.model.prompt_formats`; `auto` takes what suits the model.
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
    """Which model turns texts into vectors; `options` are the keys that only this kind knows. Loaded at first use."""

    kind: str = "local"
    model: str = "minilm"
    max_in_flight: int = 512
    options: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        one_of("[embedding] kind", self.kind, EMBEDDERS)
        at_least_one("embedding", max_in_flight=self.max_in_flight)


@dataclass(frozen=True, slots=True)
class FunctionsConfig:
    """Folders of AI functions beside the shipped ones; no two files may define the same name."""

    folders: tuple[Path, ...] = ()
