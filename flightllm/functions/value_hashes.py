"""A hash of 64 bits for any values, and the entropy of a list of values."""

import hashlib
import math
from collections import Counter
from typing import Final

import pyarrow as pa

from flightllm.functions.own import OwnFunction

HASH, ENTROPY = "__hash", "__entropy"
"""The names of the functions in SQL."""


def hashes(values: pa.Array) -> pa.Array:
    """Return a number of 64 bits for each list of texts; it is the same on all machines, and NULL has one too."""
    return pa.array(map(_hash, values.to_pylist()), pa.uint64())


def entropies(values: pa.Array) -> pa.Array:
    """Return the entropy of each list of texts in bits; NULLs do not count, and no values have the entropy 0."""
    return pa.array(map(_entropy, values.to_pylist()), pa.float64())


def _hash(texts: list[str | None] | None) -> int:
    found = hashlib.blake2b(digest_size=8)
    for text in texts or ():
        encoded = b"" if text is None else text.encode()
        found.update(b"-" if text is None else b"%d:" % len(encoded))
        found.update(encoded)
    return int.from_bytes(found.digest(), "little")


def _entropy(texts: list[str | None] | None) -> float:
    counts = Counter(text for text in texts or () if text is not None).values()
    total = sum(counts)
    return abs(sum(count / total * math.log2(count / total) for count in counts))


FUNCTIONS: Final = (
    OwnFunction(hashes, (pa.list_(pa.string()),), pa.uint64(), HASH),
    OwnFunction(entropies, (pa.list_(pa.string()),), pa.float64(), ENTROPY),
)
