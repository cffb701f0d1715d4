"""The origin of an engine's KV chunks."""

from collections.abc import Mapping
from dataclasses import dataclass

from flightllm.kvcache.codec.base import Codec
from flightllm.kvcache.stream.base import FetchPolicy
from flightllm.kvcache.stream.link import Link
from flightllm.kvcache.stream.prefill import Prefill


@dataclass(frozen=True, slots=True)
class ChunkSource:
    """The origin of an engine's KV chunks, and the policy that chooses among them.

    All requests of an engine share one source.
    """

    link: Link
    codecs: Mapping[str, Codec]
    """The codecs that can be decoded here, by name. Chunks in other codecs are not fetched."""
    policy: FetchPolicy
    prefill: Prefill
    device: str = "cpu"
    """The device that layers are decoded to."""
