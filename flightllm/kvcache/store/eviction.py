"""The order in which a full store evicts bitstreams."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from flightllm.kvcache.store.index import Index, StoredBitstream

Policy: TypeAlias = Callable[[Index], Iterator[StoredBitstream]]
"""Yields a store's entries in the order of eviction; the store pulls no more than it must evict."""


def least_recently_used(index: Index) -> Iterator[StoredBitstream]:
    """Yield the entries by their last put or get, the oldest first."""
    return index.by_last_use()
