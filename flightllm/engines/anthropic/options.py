"""The options of the `anthropic` engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from flightllm.engines.openai.options import RESPONSE_BYTES, OpenAIOptions
from flightllm.engines.options import read_options

HOSTED: Final = "https://api.anthropic.com"
KEY_ENV: Final = "ANTHROPIC_API_KEY"
_OWN: Final = frozenset({"base_url", "prompt_cache"})


@dataclass(frozen=True, slots=True)
class AnthropicOptions:
    """The endpoint and its options.

    `base_url` is the address before `/v1/messages`. The other options are as for the engine `openai`. `prompt_cache`
    `auto` marks the start that a prompt shares with later prompts of its query, where the reads save more than the
    write costs; `off` marks nothing. `batch` says whether the endpoint also takes batches of messages: `auto` means at
    Anthropic's own address. A token there costs `batch_price` times its usual price.
    """

    base_url: str = HOSTED
    api_key_env: str = KEY_ENV
    api_key_file: str = ""
    api_key: str = ""
    timeout: float = 120.0
    max_retries: int = 8
    requests_per_minute: float = 0.0
    tokens_per_minute: float = 0.0
    send_constraints: bool = True
    response_bytes: int = RESPONSE_BYTES
    extra_body: Mapping[str, object] = field(default_factory=dict)
    headers: Mapping[str, object] = field(default_factory=dict)
    query: Mapping[str, object] = field(default_factory=dict)
    proxy: str = ""
    system_prompt: str = ""
    prompt_cache: str = "auto"
    batch: str = "auto"
    batch_price: float = 0.5

    def __post_init__(self) -> None:
        if self.prompt_cache not in {"auto", "off"}:
            raise ValueError(f"prompt_cache: expected auto or off, got {self.prompt_cache!r}")
        self.http()

    @property
    def address(self) -> str:
        """Return the base URL without a slash or `/v1` at its end: the client adds the path."""
        return self.base_url.rstrip("/").removesuffix("/v1").rstrip("/")

    @property
    def has_batches(self) -> bool:
        """Return whether the endpoint takes batches of messages, by the option `batch` or by the address."""
        return self.batch == "on" or (self.batch == "auto" and self.address == HOSTED)

    def http(self) -> OpenAIOptions:
        """Return the same options in the form that the parts of the HTTP engine read."""
        shared = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _OWN}
        return OpenAIOptions(base_url=self.address, **shared)


def read_anthropic_options(options: Mapping[str, object]) -> AnthropicOptions:
    """Return the options of an engine.

    Raises:
        ConfigError: an option is unknown or wrong.
    """
    return read_options(AnthropicOptions, "anthropic", options)
