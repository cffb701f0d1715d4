"""Field orders that differ between rows: the field value shared by most tokens first, and so on inside each group."""

from flightllm.order.base import CacheShape, Draft, Encoded
from flightllm.order.uniform import by_score


def greedy(encoded: Encoded, cache: CacheShape) -> Draft:
    """Return the ordering found."""
    del cache
    return by_score(encoded)
