"""The status of a KV store."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CodecUsage:
    """The number of a codec's bitstreams, and their bytes."""

    bitstreams: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """A store's contents, and its request counts since it was opened."""

    chunks: int
    """Chunks with at least one bitstream; a chunk can have several."""
    bytes: int
    max_bytes: int
    codecs: Mapping[str, CodecUsage]
    hits: int
    """Reads of held bitstreams."""
    misses: int
    """Lookups that found no requested chunk, and reads of bitstreams that were not held."""
    evicted: int
    damaged: int
