"""Which bitstreams go first where a store has no more room."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from flightllm.kvcache.store.index import Entry, Index

Policy: TypeAlias = Callable[[Index], Iterator[Entry]]
"""Yields what a store holds, in the order in which it may go; asked for no more than is needed."""


def least_recently_used(index: Index) -> Iterator[Entry]:
    """Yield first what was put or got the longest ago."""
    return index.by_last_use()
