"""The options of an engine's KV store; vLLM's connector gets them in `kv_connector_extra_config`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, get_args

from flightllm.config.secrets import check_reference
from flightllm.errors import ConfigError
from flightllm.kvcache.chunks import CHUNK_TOKENS
from flightllm.kvcache.codec import CODECS, DEFAULT_CODEC
from flightllm.kvcache.codec.levels import FAST, needs_profile

HINT: Final = "flightllm_kv_prefix"
"""The key in `SamplingParams.extra_args`; its value is the number of leading tokens that other prompts share."""

_KINDS: Final[Mapping[str, tuple[type, ...]]] = {"int": (int,), "float": (int, float), "Sequence[str]": (list, tuple)}

_EXPECTED: Final = {"int": "a whole number", "float": "a number", "Sequence[str]": "a list of texts"}
_ADDRESS: Final = re.compile(r"grpc(\+tcp|\+tls)?://[^/]+:\d+")
_EXACT: Final = "raw"

Saved = Literal["hinted", "all", "none"]


@dataclass(frozen=True, slots=True)
class KvOptions:
    """The store of KV chunks, their codecs, and the engine's time limits for loading and saving them.

    - `store`, `token`, `tls_ca`: the address of the store, a reference to its secret, and a file of certificates to
      trust in place of the system's.
    - `codec`, `codecs`: each chunk is kept in all of these codecs. Without `codecs`, a chunk in a level of CacheGen is
      also kept in `fast`, if that codec would load sooner. Loads choose among the held codecs and computing. Both
      choices use measured speeds.
    - `slo_seconds`: loads take the best codec that arrives within this time. With 0 they take what is soonest: `codec`,
      one as good, or computing.
    - `prefill_tokens_per_second`: the speed of computing a prompt on an idle engine, before it is measured. With 0,
      vLLM's connector assumes until then that loading is faster.
    - `profile`: the model's profile, which CacheGen's codecs need; by default the file beside the model.
    - `save`: `hinted` keeps a prompt's shared start, whose length the request's hint gives; `all` keeps whole
      prompts; `none` saves nothing.
    - `min_tokens`: a prompt's start with fewer tokens is computed, because that is faster.
    - `load_seconds`: a load that takes longer is cancelled, and its tokens are computed.
    - `pause_seconds`: after a store fails, it is not asked again for this time.
    - `save_tokens`: while this many tokens wait to be saved, nothing more is saved.
    - `flush_seconds`: how long the engine's shutdown waits for saves.
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
    def where_sooner(self) -> str | None:
        """Return the codec in which chunks are kept only where it loads sooner than `codec`; None: no such codec.

        It has the error of the default codec, so an exact store never has it.
        """
        return FAST if not self.codecs and needs_profile(self.codec) else None

    @property
    def kept(self) -> list[str]:
        """Return the codecs in which chunks can be kept, best first."""
        return [name for name in CODECS if name in {self.codec, *self.codecs, self.where_sooner}]

    @property
    def lossy(self) -> list[str]:
        """Return the lossy codecs: with them answers can differ from those of an engine that computes everything."""
        return [name for name in self.kept if name != _EXACT]

    def __post_init__(self) -> None:
        if not self.store:
            raise ConfigError("KV store: no address: set `kv_store` to 'grpc://host:port'")
        check_reference("KV store, token", self.token)
        if self.save not in get_args(Saved):
            raise ConfigError(f"KV store, save: expected {', '.join(get_args(Saved))}, got {self.save!r}")
        for name in (self.codec, *self.codecs):
            if name not in CODECS:
                raise ConfigError(
                    f"KV store, codec and codecs: unknown codec {name!r}; valid codecs: {', '.join(CODECS)}"
                )
        for name in ("chunk_tokens", "min_tokens", "save_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"KV store, {name}: expected at least 1, got {getattr(self, name)}")
        if self.prefill_tokens_per_second < 0:
            raise ConfigError("KV store, prefill_tokens_per_second: the rate is negative; write 0 or more")
        for name in ("slo_seconds", "lookup_seconds", "load_seconds", "pause_seconds", "flush_seconds"):
            if getattr(self, name) < 0:
                raise ConfigError(f"KV store, {name}: expected at least 0 seconds, got {getattr(self, name)}")


def gather_kv_options(store: str, codec: str, token: str | None, options: Mapping[str, object]) -> dict[str, object]:
    """Return the KV options of an engine that has its own settings for the store, codec and token.

    The result is empty if no option is set.

    Raises:
        ConfigError: an option is wrong, or options are set without a store.
    """
    named = {name: value for name, value in {"store": store, "codec": codec, "token": token}.items() if value}
    given = {**options, **named}
    if given:
        check_address(read_kv_options(given).store)
    return given


def check_address(store: str) -> None:
    """Raise `ConfigError` if `store` is not a valid address."""
    if not _ADDRESS.fullmatch(store):
        raise ConfigError(f"KV store: invalid address {store!r}; write 'grpc://host:port' or 'grpc+tls://host:port'")


def read_kv_options(given: Mapping[str, Any]) -> KvOptions:
    """Return the options from a mapping.

    Raises:
        ConfigError: an option is unknown or missing, or has a wrong type or value.
    """
    valid = {field.name: field.type for field in fields(KvOptions)}
    for name, value in given.items():
        if name not in valid:
            raise ConfigError(f"KV store, {name}: unknown option; valid options: {', '.join(sorted(valid))}")
        kind, told = _KINDS.get(str(valid[name]), (str, type(None))), _EXPECTED.get(str(valid[name]), "a text")
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ConfigError(f"KV store, {name}: {value!r} has the wrong type; write {told}")
    return KvOptions(**{"store": "", **given})
