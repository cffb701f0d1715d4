"""What an engine is told of its KV store: vLLM's connector in `kv_connector_extra_config`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, get_args

from flightllm.config.secrets import check_reference
from flightllm.errors import ConfigError
from flightllm.kvcache.chunks import CHUNK_TOKENS
from flightllm.kvcache.codec import CODECS, DEFAULT_CODEC

HINT: Final = "flightllm_kv_prefix"
"""The key of `SamplingParams.extra_args` for how many tokens at a prompt's start other prompts have too."""

_KINDS: Final[Mapping[str, tuple[type, ...]]] = {"int": (int,), "float": (int, float), "Sequence[str]": (list, tuple)}

_EXPECTED: Final = {"int": "a whole number", "float": "a number", "Sequence[str]": "a list of texts"}
_ADDRESS: Final = re.compile(r"grpc(\+tcp|\+tls)?://[^/]+:\d+")
_EXACT: Final = "raw"

Saved = Literal["hinted", "all", "none"]


@dataclass(frozen=True, slots=True)
class KvOptions:
    """Where KV chunks are kept, how they are coded, and how long the engine waits for them.

    `token` refers to the secret that the store asks for, `tls_ca` is a file of certificates to trust in place of the
    system's.

    Each chunk is kept in `codec`, and in those of `codecs`, among which loads choose by the link: with `slo_seconds`
    the best that is there in that time, without `codec`, or none where computing is sooner. vLLM's connector knows that
    by `prefill_tokens_per_second`, of a prompt on an idle engine; with 0 it takes loading to be sooner. `profile` is
    the model's file that CacheGen's codecs need, by default the one beside the model.

    `save`: `hinted` keeps the starts of prompts that other prompts have too, as the request says; `all` keeps whole
    prompts. Starts shorter than `min_tokens` are computed: that is quicker. A load that is not done after
    `load_seconds` is given up and computed, and a store that failed is left alone for `pause_seconds`. Nothing more
    is saved while `save_tokens` tokens wait for it; the engine's end waits `flush_seconds` for them.
    """

    store: str
    token: str | None = None
    tls_ca: str = ""
    codec: str = DEFAULT_CODEC
    codecs: Sequence[str] = ()
    slo_seconds: float = 0.0
    prefill_tokens_per_second: float = 0.0
    profile: str = ""
    revision: str = ""
    save: Saved = "hinted"
    chunk_tokens: int = CHUNK_TOKENS
    min_tokens: int = 64
    lookup_seconds: float = 0.5
    load_seconds: float = 5.0
    pause_seconds: float = 5.0
    save_tokens: int = 24_000
    flush_seconds: float = 5.0

    @property
    def lossy(self) -> list[str]:
        """Return the codecs with which answers may be others than those of an engine that computes everything."""
        return [name for name in CODECS if name != _EXACT and name in {self.codec, *self.codecs}]

    def __post_init__(self) -> None:
        if not self.store:
            raise ConfigError("KV store: say where it is by `kv_store`, as 'grpc://host:port'")
        check_reference("KV store, token", self.token)
        if self.save not in get_args(Saved):
            raise ConfigError(f"KV store, save: expected {', '.join(get_args(Saved))}, got {self.save!r}")
        for name in (self.codec, *self.codecs):
            if name not in CODECS:
                raise ConfigError(f"KV store, codec and codecs: there is no {name!r}; there are {', '.join(CODECS)}")
        for name in ("chunk_tokens", "min_tokens", "save_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"KV store, {name}: expected at least 1, got {getattr(self, name)}")
        if self.prefill_tokens_per_second < 0:
            raise ConfigError("KV store, prefill_tokens_per_second: expected no negative rate")
        for name in ("slo_seconds", "lookup_seconds", "load_seconds", "pause_seconds", "flush_seconds"):
            if getattr(self, name) < 0:
                raise ConfigError(f"KV store, {name}: expected no negative time, got {getattr(self, name)}")


def gather_kv_options(store: str, codec: str, token: str | None, options: Mapping[str, object]) -> dict[str, object]:
    """Return the options of an engine that has the commonest of them by names of its own; none where none are given.

    Raises:
        ConfigError: one is wrong, or there are some and no store.
    """
    named = {name: value for name, value in {"store": store, "codec": codec, "token": token}.items() if value}
    given = {**options, **named}
    if given:
        check_address(read_kv_options(given).store)
    return given


def check_address(store: str) -> None:
    """Raise `ConfigError` where a store cannot be at an address."""
    if not _ADDRESS.fullmatch(store):
        raise ConfigError(f"KV store: no address {store!r}; write 'grpc://host:port' or 'grpc+tls://host:port'")


def read_kv_options(given: Mapping[str, Any]) -> KvOptions:
    """Return the options of a mapping.

    Raises:
        ConfigError: one is unknown, missing, or of a wrong type or value.
    """
    valid = {field.name: field.type for field in fields(KvOptions)}
    for name, value in given.items():
        if name not in valid:
            raise ConfigError(f"KV store, {name}: unknown option; valid options: {', '.join(sorted(valid))}")
        kind, told = _KINDS.get(str(valid[name]), (str, type(None))), _EXPECTED.get(str(valid[name]), "a text")
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ConfigError(f"KV store, {name}: {value!r} is of a wrong type; expected {told}")
    return KvOptions(**{"store": "", **given})
