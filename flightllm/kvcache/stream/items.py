"""The items of a fetch of KV chunks: loaded chunks, tokens to compute instead, and figures of both."""

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
    """An order to compute the tokens `start` to `stop`.

    It is the last item of a fetch, unless the engine can return: then chunks after `stop` can follow.
    """

    start: int
    stop: int
    reason: Reason
    """`chosen`: the policy prefers computing (faster, or exact and in time); `missing`: not in the store; `store`: the
    store cannot be reached; `damaged`: the bitstream is damaged."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A chunk's keys and values."""

    chunk: Chunk
    codec: str
    layers: Iterator[torch.Tensor]
    """For each layer its keys and values, of shape (2, tokens, heads, head_dim); decoded lazily."""


@dataclass(frozen=True, slots=True)
class FetchFigures:
    """The counts and times of a fetch so far."""

    chunks: Mapping[str, int] = field(default_factory=dict)
    """The number of loaded chunks, by codec."""
    bytes: Mapping[str, int] = field(default_factory=dict)
    """The bytes of loaded chunks, by codec."""
    wasted_bytes: int = 0
    """The bytes of cancelled transfers and of damaged bitstreams."""
    given_up: int = 0
    """The number of transfers cancelled because another choice was faster."""
    text_tokens: int = 0
    """The number of tokens to compute instead."""
    reason: Reason | None = None
    """The reason for computing the last of them."""
    lookup_seconds: float = 0.0
    waited_seconds: float = 0.0
    """The time that the fetch waited for the network while it had nothing to decode, the lookup included."""
    decode_seconds: float = 0.0
