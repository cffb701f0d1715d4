"""The kinds of inference engines and of embedding models: where the code of each is, and which extra it needs.

Modules and classes are names here. Each module is imported at first use, because most modules need an extra.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class EngineKind:
    """One kind of inference engine."""

    module: str
    """The module with the functions `create` and `check`."""
    options: str
    """The dataclass of the options that only this kind knows, as MODULE:CLASS."""
    extra: str | None = None
    """The extra with the engine's packages; None if the engine needs no extra in any case."""
    of_one_model: bool = True
    """Whether the engine itself runs a model; a cluster runs other engines."""
    elsewhere: bool = False
    """Whether the model runs outside the server's processes, so that a new process opens the engine at once."""


@dataclass(frozen=True, slots=True)
class EmbedderKind:
    """One kind of embedding model."""

    module: str
    """The module with the function `create`."""
    options: str
    """The dataclass of the options that only this kind knows, as MODULE:CLASS."""
    elsewhere: bool = False
    """See `EngineKind`."""
    package: str | None = None
    """A package that only the model's extra installs; None if the model needs no extra."""


ENGINES: Mapping[str, EngineKind] = MappingProxyType(
    {
        "local": EngineKind(
            "flightllm.engines.local.engine", "flightllm.engines.local.engine:LocalOptions", extra="local"
        ),
        "vllm": EngineKind("flightllm.engines.vllm.engine", "flightllm.engines.vllm.engine:VllmOptions", extra="gpu"),
        "openai": EngineKind(
            "flightllm.engines.openai.create",
            "flightllm.engines.openai.options:OpenAIOptions",
            extra="openai",
            elsewhere=True,
        ),
        "anthropic": EngineKind(
            "flightllm.engines.anthropic.engine",
            "flightllm.engines.anthropic.options:AnthropicOptions",
            extra="anthropic",
            elsewhere=True,
        ),
        "cluster": EngineKind(
            "flightllm.router.cluster", "flightllm.router.cluster:ClusterOptions", of_one_model=False
        ),
        "ray": EngineKind(
            "flightllm.router.ray.engine", "flightllm.router.ray.engine:RayOptions", extra="ray", of_one_model=False
        ),
        "fake": EngineKind(
            "flightllm.engines.fake.engine", "flightllm.engines.fake.engine:FakeOptions", elsewhere=True
        ),
    }
)
"""The inference engines by `kind`, in the order of messages and of the documentation."""

EMBEDDERS: Mapping[str, EmbedderKind] = MappingProxyType(
    {
        "local": EmbedderKind(
            "flightllm.engines.embed.local",
            "flightllm.engines.embed.local:LocalEmbeddingOptions",
            package="sentence_transformers",
        ),
        "vllm": EmbedderKind(
            "flightllm.engines.embed.vllm", "flightllm.engines.embed.vllm:VllmEmbeddingOptions", package="vllm"
        ),
        "openai": EmbedderKind(
            "flightllm.engines.embed.openai", "flightllm.engines.embed.openai:EmbeddingOptions", elsewhere=True
        ),
        "fake": EmbedderKind(
            "flightllm.engines.embed.fake", "flightllm.engines.embed.fake:FakeEmbeddingOptions", elsewhere=True
        ),
    }
)
"""The embedding models by `kind`."""
