"""Choose an ordering by what it is expected to save."""

from flightllm.order.base import CacheShape, Draft, Encoded
from flightllm.order.greedy import greedy


def auto(encoded: Encoded, cache: CacheShape) -> Draft:
    """Return the ordering chosen."""
    return greedy(encoded, cache)
