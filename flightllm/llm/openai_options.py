"""Options of the `openai` engine."""

from __future__ import annotations

import os
from dataclasses import dataclass

from flightllm.config.secrets import read_secret
from flightllm.errors import ConfigError
from flightllm.llm.kv_addresses import check_heard
from flightllm.llm.secrets import holds_secret, shown_address

APIS = ("auto", "chat", "completions")
RESPONSE_BYTES = 32 << 20
_HOSTED = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class OpenAIOptions:
    """Where the endpoint is and how to talk to it.

    `api` `auto` is `completions` where `prompts_per_request` > 1, else `chat`. Completions take the prompt as it is;
    chat lets the endpoint put it into the model's template. `timeout` is in seconds, for one HTTP request. The limits
    per minute are 0 for none; tokens are estimated at four characters each, the answer's `max_tokens` included.
    `api_key` refers to the key, `env:NAME` or `file:PATH`; `api_key_env` and `api_key_file` are these two apart.
    `response_bytes` is how long the body of one response can be, unpacked: a longer one is an error of its rows.

    Where the endpoint is vLLM: `tokenizer` is the model's folder or hub name, so that tokens are counted as it does;
    `kv_events` is the ZeroMQ address at which it tells what its prefix cache holds, `kv_replay` the one at which it
    tells past events again; `block_tokens` and `cache_blocks` are the shape of that cache; `max_model_len` is its own
    limit (0: the tokenizer's); `priority` sends each request's priority, `cache_salt` keeps tenants' prefixes
    apart, `kv_hints` tells a vLLM with a KV store which prompts' starts recur, and `reuse_hints` one that evicts by a
    policy of ours how much of a prompt later ones have too. Other endpoints refuse these four.
    Of several prompts in one request vLLM 0.32 tells only how many tokens of the last one were cached: with
    `prompts_per_request` = 1 that is told of each.
    """

    base_url: str = _HOSTED
    api_key_env: str = "OPENAI_API_KEY"
    api_key_file: str = ""
    api: str = "auto"
    prompts_per_request: int = 1
    timeout: float = 120.0
    max_retries: int = 5
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

    def __post_init__(self) -> None:
        if self.api_key and holds_secret("api_key", self.api_key):
            raise ValueError("api_key: write env:NAME or file:PATH, never the key itself")
        if not self.base_url.startswith(("http://", "https://")):
            raise ValueError(f"base_url: expected http(s)://HOST:PORT/v1, got {shown_address(self.base_url)!r}")
        if self.api not in APIS:
            raise ValueError(f"api: expected one of {', '.join(APIS)}, got {self.api!r}")
        if self.prompts_per_request < 1:
            raise ValueError("prompts_per_request: must be at least 1")
        if self.api == "chat" and self.prompts_per_request > 1:
            raise ValueError('prompts_per_request: chat takes one prompt at a time; write api = "completions"')
        if self.timeout <= 0 or self.max_retries < 0:
            raise ValueError("timeout, max_retries: must be positive")
        if self.response_bytes < 1:
            raise ValueError("response_bytes: must be positive")
        if self.requests_per_minute < 0 or self.tokens_per_minute < 0:
            raise ValueError("requests_per_minute, tokens_per_minute: must not be negative")
        self._check_cache()

    def _check_cache(self) -> None:
        if self.kv_events and not self.tokenizer:
            raise ValueError("kv_events: tells of tokens, so write the model's folder or hub name as tokenizer too")
        if self.kv_replay and not self.kv_events:
            raise ValueError("kv_replay: tells past events again, so write where new ones are told as kv_events")
        for name in ("kv_hints", "reuse_hints"):
            if getattr(self, name) and not self.tokenizer:
                raise ValueError(f"{name}: count tokens, so write the model's folder or hub name as tokenizer too")
        check_heard("kv_events", self.kv_events)
        check_heard("kv_replay", self.kv_replay)
        if min(self.block_tokens, self.cache_blocks) < 1 or self.max_model_len < 0:
            raise ValueError("block_tokens, cache_blocks, max_model_len: must be positive")

    @property
    def completions(self) -> bool:
        """Say whether prompts go to `/completions`."""
        return self.api == "completions" or (self.api == "auto" and self.prompts_per_request > 1)

    def read_key(self) -> str:
        """Return the key from where the options say, a file before the environment; one's own endpoints need none.

        Raises:
            ConfigError: what `api_key` refers to is not there, the file cannot be read, or the hosted API has no key.
        """
        if self.api_key:
            return read_secret("[engine] api_key", self.api_key)
        if self.api_key_file:
            return read_secret("[engine] api_key_file", f"file:{self.api_key_file}")
        key = os.environ.get(self.api_key_env, "")
        if not key and self.base_url == _HOSTED:
            raise ConfigError(f"[engine] api_key_env: the environment variable {self.api_key_env} holds no API key")
        return key or "none"
