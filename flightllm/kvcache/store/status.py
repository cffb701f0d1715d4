"""What a store of KV chunks tells about itself."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Held:
    """How many bitstreams there are of a codec, and their bytes."""

    bitstreams: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """What a store holds, and what became of requests since it was opened."""

    chunks: int
    """Of which anything is held; of one there may be several bitstreams."""
    bytes: int
    max_bytes: int
    codecs: Mapping[str, Held]
    hits: int
    """Bitstreams that were found to be read."""
    misses: int
    """Lookups that found none of the chunks asked for, and bitstreams that were not there to be read."""
    evicted: int
    damaged: int
