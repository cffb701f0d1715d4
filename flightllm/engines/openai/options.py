"""The options of the `openai` engine."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from urllib.parse import urlsplit

from flightllm.config.secrets import REFERENCE, checked_secret, read_secret
from flightllm.engines.cache_rules import CacheRules, rules_of
from flightllm.engines.kv_addresses import check_connect_address
from flightllm.engines.openai.batch_rules import RULES
from flightllm.engines.options import read_options
from flightllm.engines.providers import NAMES, Provider, named, provider_at
from flightllm.engines.secrets import holds_secret, shown_address
from flightllm.errors import ConfigError

APIS = ("auto", "chat", "completions", "decisions", "systemone")
_BATCHES = ("auto", "on", "off")
RESPONSE_BYTES = 32 << 20
_HOSTED = "https://api.openai.com/v1"
_KEY_ENV = "OPENAI_API_KEY"
SAME_ANSWERS = frozenset(
    {
        *("base_url", "api", "prompts_per_request"),  # the engine's revision names the address and the API itself
        *("api_key", "api_key_env", "api_key_file", "proxy"),
        *("timeout", "max_retries", "requests_per_minute", "tokens_per_minute", "response_bytes"),
        *("tokenizer", "kv_events", "kv_replay", "block_tokens", "cache_blocks", "max_model_len"),
        *("priority", "cache_salt", "reuse_hints", "batch", "batch_price"),
    }
)
"""The options that change no answer, or that the engine's revision has in another form. All others are in its suffix,
so that a new option counts until somebody lists it here."""


@dataclass(frozen=True, slots=True)
class OpenAIOptions:
    """The endpoint and its options.

    `api` `auto` means `completions` if `prompts_per_request` > 1, otherwise `chat`. Completions send the prompt as it
    is; with chat, the endpoint applies the model's chat template. `decisions` and `systemone` ask typed questions, see
    `decision_questions`. `timeout` is in seconds, for one HTTP request. A limit per minute of 0 means no limit; tokens
    are estimated by words and scripts, plus the answer's `max_tokens`.
    `api_key` refers to the key, as `env:NAME` or `file:PATH`; `api_key_env` and `api_key_file` are separate options for
    a variable and a file. `response_bytes` bounds the decompressed body of one response; a longer body is an error of
    its rows.

    `provider` names the endpoint's kind if the address does not show it; it sets the defaults of `base_url` and of the
    key's variable. `extra_body` adds keys to the body of each request; `headers` and `query` add to each HTTP request.
    These three are tables, or in SQL texts with a JSON object. `organization` and `project` are for OpenAI,
    `api_version` is for Azure. `proxy` is an address, or `env:NAME` if the address has a password. Without `proxy`,
    HTTPS_PROXY of the environment applies. The model gets `system_prompt` before each prompt.

    `batch` says whether the endpoint also takes files of requests, as OpenAI's batches do: `auto` means by the known
    providers, see `batch_rules`. A token there costs `batch_price` times its usual price; the default stands for the
    known price of the provider.

    `max_model_len` is the endpoint's limit for a prompt with its answer, in tokens (0: the tokenizer's, or unknown
    without a tokenizer).

    These options are for vLLM:

    - `tokenizer` is the model's folder or hub name, for exact token counts.
    - `kv_events` is the ZeroMQ address of the KV events, `kv_replay` the address that sends past events again.
    - `block_tokens` and `cache_blocks` are the size of the prefix cache's blocks, and their number.
    - `priority` sends each request's priority.
    - `cache_salt` keeps tenants' prefixes apart.
    - `kv_hints` tells a vLLM with a KV store which starts of prompts recur.
    - `reuse_hints` tells a vLLM with one of our eviction policies how much of a prompt later prompts share.

    Other endpoints reject the last four. If a request has several prompts, vLLM 0.32 reports the cached tokens of only
    the last prompt; with `prompts_per_request` = 1, it reports them for each prompt.
    """

    base_url: str = _HOSTED
    api_key_env: str = _KEY_ENV
    api_key_file: str = ""
    api: str = "auto"
    prompts_per_request: int = 1
    timeout: float = 120.0
    max_retries: int = 8
    requests_per_minute: float = 0.0
    tokens_per_minute: float = 0.0
    send_constraints: bool = True
    api_key: str = ""
    tokenizer: str = ""
    kv_events: str = ""
    kv_replay: str = ""
    block_tokens: int = 16
    cache_blocks: int = 1_024
    max_model_len: int = 0
    priority: bool = False
    cache_salt: bool = False
    kv_hints: bool = False
    reuse_hints: bool = False
    response_bytes: int = RESPONSE_BYTES
    provider: str = ""
    extra_body: Mapping[str, object] = field(default_factory=dict)
    headers: Mapping[str, object] = field(default_factory=dict)
    query: Mapping[str, object] = field(default_factory=dict)
    organization: str = ""
    project: str = ""
    proxy: str = ""
    api_version: str = ""
    system_prompt: str = ""
    batch: str = "auto"
    batch_price: float = 0.5

    def __post_init__(self) -> None:
        if self.api_key and holds_secret("api_key", self.api_key):
            raise ValueError("api_key: write env:NAME or file:PATH, never the key itself")
        if not self.base_url.startswith(("http://", "https://")):
            raise ValueError(f"base_url: expected http(s)://HOST:PORT/v1, got {shown_address(self.base_url)!r}")
        if self.api not in APIS:
            raise ValueError(f"api: expected one of {', '.join(APIS)}, got {self.api!r}")
        if self.prompts_per_request < 1:
            raise ValueError(f"prompts_per_request: expected at least 1, got {self.prompts_per_request}")
        if self.api == "chat" and self.prompts_per_request > 1:
            raise ValueError('prompts_per_request: chat takes one prompt at a time; write api = "completions"')
        if self.timeout <= 0 or self.max_retries < 0:
            raise ValueError("timeout must be above 0, max_retries must not be negative")
        if self.response_bytes < 1:
            raise ValueError(f"response_bytes: expected at least 1, got {self.response_bytes}")
        if self.requests_per_minute < 0 or self.tokens_per_minute < 0:
            raise ValueError("requests_per_minute, tokens_per_minute: must not be negative")
        if self.provider and named(self.provider) is None:
            raise ValueError(f"provider: expected one of {', '.join(NAMES)}, got {self.provider!r}")
        self._check_further()
        self._check_cache()
        self._check_batches()

    def _check_further(self) -> None:
        for name in ("headers", "query"):
            for key, value in getattr(self, name).items():
                if not isinstance(value, str):
                    raise ValueError(f"{name}: {key} must be a text, not {type(value).__name__}")  # noqa: TRY004 - as other options
                if name == "headers" and not key.isascii():
                    raise ValueError(f"headers: the name {key!r} has characters that are not ASCII")
                if holds_secret(key, value):
                    raise ValueError(f"{name}: write {key} as env:NAME or file:PATH, never the secret itself")
        if self.proxy and REFERENCE.fullmatch(self.proxy) is None:
            if holds_secret("proxy", self.proxy):
                raise ValueError("proxy: an address with a password must be env:NAME or file:PATH")
            if not self.proxy.startswith(("http://", "https://", "socks5://", "socks5h://")):
                raise ValueError(f"proxy: expected http://HOST:PORT, got {shown_address(self.proxy)!r}")
        if self.completions and self.system_prompt:
            raise ValueError("system_prompt: completions have no system prompt; write the text into the prompts")

    def _check_batches(self) -> None:
        if self.batch not in _BATCHES:
            raise ValueError(f"batch: expected one of {', '.join(_BATCHES)}, got {self.batch!r}")
        if not 0 <= self.batch_price < math.inf:
            raise ValueError(f"batch_price: expected a number from 0 on, got {self.batch_price}")

    def _check_cache(self) -> None:
        if self.decides and (self.prompts_per_request > 1 or self.tokenizer):
            wrong = "tokenizer" if self.tokenizer else "prompts_per_request"
            raise ValueError(f'{wrong}: leave it out with api = "{self.api}", which joins the questions about one row')
        if self.kv_events and not self.tokenizer:
            raise ValueError("kv_events: needs the tokenizer; write tokenizer = the model's folder or hub name")
        if self.kv_replay and not self.kv_events:
            raise ValueError("kv_replay: needs kv_events; write kv_events = the address of new events")
        for name in ("kv_hints", "reuse_hints"):
            if getattr(self, name) and not self.tokenizer:
                raise ValueError(f"{name}: needs the tokenizer; write tokenizer = the model's folder or hub name")
        check_connect_address("kv_events", self.kv_events)
        check_connect_address("kv_replay", self.kv_replay)
        if min(self.block_tokens, self.cache_blocks) < 1 or self.max_model_len < 0:
            raise ValueError("block_tokens and cache_blocks must be at least 1, max_model_len must not be negative")

    @property
    def completions(self) -> bool:
        """Return whether prompts go to `/completions`."""
        return self.api == "completions" or (self.api == "auto" and self.prompts_per_request > 1)

    @property
    def decides(self) -> bool:
        """Return whether the endpoint answers typed questions, and writes no text."""
        return self.api in {"decisions", "systemone"}

    @property
    def known_provider(self) -> Provider:
        """Return the endpoint's provider, by the option `provider` or by the address."""
        return named(self.provider) or provider_at(self.base_url)

    @property
    def has_batches(self) -> bool:
        """Return whether the endpoint takes files of requests, by the option `batch` or by the provider."""
        return self.batch == "on" or (self.batch == "auto" and self.known_provider.name in RULES)

    def cache_rules(self, model: str) -> CacheRules | None:
        """Return the rules of the hosted provider's cache; None for others, or if the options describe the cache."""
        default = OpenAIOptions()
        configured = (self.block_tokens, self.cache_blocks) != (default.block_tokens, default.cache_blocks)
        return None if configured or self.kv_events else rules_of(self.known_provider.name, model)

    @property
    def address(self) -> str:
        """Return the base URL of the requests.

        Without `base_url`, this is the provider's URL. A URL of Azure without a path gets the path of Azure's API; with
        `api_version`, this path has `{model}` in place of the model's name.
        """
        provider = self.known_provider
        if self.base_url == _HOSTED and provider.base_url:
            return provider.base_url
        if provider.name == "azure" and urlsplit(self.base_url).path in {"", "/"}:
            path = "/openai/deployments/{model}" if self.api_version else "/openai/v1"
            return self.base_url.rstrip("/") + path
        return self.base_url

    @property
    def key_variable(self) -> str:
        """Return the environment variable that holds the key, unless a file or a reference is given."""
        own = self.known_provider.key_env
        return own if own and self.api_key_env == _KEY_ENV else self.api_key_env

    @property
    def key_reference(self) -> str:
        """Return the reference to the key in the form of `api_key`: `env:NAME` or `file:PATH`."""
        file = f"file:{self.api_key_file}" if self.api_key_file else ""
        return self.api_key or file or f"env:{self.key_variable or 'NAME'}"

    def read_query(self) -> dict[str, str]:
        """Return the query parameters of each HTTP request; references to secrets are read."""
        version = {"api-version": self.api_version} if self.api_version else {}
        return version | self._read("query")

    def read_headers(self) -> dict[str, str]:
        """Return the additional headers; references to secrets are read."""
        return self._read("headers")

    def read_proxy(self) -> str | None:
        """Return the proxy's address; None for the proxy of the environment."""
        if REFERENCE.fullmatch(self.proxy):
            return read_secret("[engine] proxy", self.proxy)
        return self.proxy or None

    def _read(self, name: str) -> dict[str, str]:
        table: Mapping[str, object] = getattr(self, name)
        return {
            key: read_secret(f"[engine] {name}.{key}", str(value))
            if REFERENCE.fullmatch(str(value))
            else checked_secret(f"[engine] {name}.{key}", str(value), keep=False)  # `read_options` kept what is secret
            for key, value in table.items()
        }

    def revision_suffix(self) -> str:
        """Return the options that can affect answers, for the engine's revision; empty at the defaults.

        Secrets are there as references such as `env:NAME`.
        """
        default = OpenAIOptions()
        chosen = {
            name: dict(value) if isinstance(value, Mapping) else value
            for name in (one.name for one in fields(self))
            if name not in SAME_ANSWERS and (value := getattr(self, name)) != getattr(default, name)
        }
        return f" {json.dumps(chosen, sort_keys=True, default=str)}" if chosen else ""

    def read_key(self) -> str:
        """Return the API key: from `api_key`, else the file, else the environment; "none" for a local endpoint.

        An empty `api_key_env` means that the endpoint takes no key.

        Raises:
            ConfigError: `api_key` refers to a missing secret, the file is unreadable, or a hosted API has no key.
        """
        if self.api_key:
            return read_secret("[engine] api_key", self.api_key)
        if self.api_key_file:
            return read_secret("[engine] api_key_file", f"file:{self.api_key_file}")
        if not (variable := self.key_variable):
            return "none"
        key = os.environ.get(variable, "").strip(" \t\r\n")
        if not key and (self.known_provider.key_env or self.address == _HOSTED):
            raise ConfigError(
                f"[engine] api_key_env: the environment variable {variable} is not set or empty: set it to the API key"
            )
        return checked_secret("[engine] api_key_env", key, f"the environment variable {variable}") if key else "none"


def read_openai_options(options: Mapping[str, object]) -> OpenAIOptions:
    """Return the options of an engine.

    Raises:
        ConfigError: an option is unknown or wrong.
    """
    return read_options(OpenAIOptions, "openai", options)
