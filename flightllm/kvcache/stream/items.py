"""What a fetch of KV chunks gives: chunks, what is to be computed instead, and figures of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from flightllm.kvcache.chunks import Chunk

if TYPE_CHECKING:
    import torch

Reason = Literal["chosen", "missing", "store", "damaged"]


@dataclass(frozen=True, slots=True)
class Recompute:
    """Compute the tokens `start` to `stop` of the prompt: the last item of a fetch that does not bring all of them."""

    start: int
    stop: int
    reason: Reason
    """`chosen` by the policy, as it is sooner, or exact and in time; `missing` from the store; the `store` cannot be
    reached; or what came is `damaged`."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A chunk's keys and values."""

    chunk: Chunk
    codec: str
    layers: Iterator[torch.Tensor]
    """Decoded as they are taken: for each layer keys and values, of shape (2, tokens, heads, head_dim)."""


@dataclass(frozen=True, slots=True)
class FetchFigures:
    """What a fetch did until now."""

    chunks: Mapping[str, int] = field(default_factory=dict)
    """Chunks that were loaded, by codec."""
    bytes: Mapping[str, int] = field(default_factory=dict)
    """What came of these, by codec."""
    wasted_bytes: int = 0
    """What came of transfers that were given up, or was damaged."""
    given_up: int = 0
    """Transfers ended because something else was sooner."""
    text_tokens: int = 0
    """Those to be computed instead."""
    reason: Reason | None = None
    """Why that is so."""
    lookup_seconds: float = 0.0
    waited_seconds: float = 0.0
    """For the network, with nothing to decode; the lookup is among it."""
    decode_seconds: float = 0.0
