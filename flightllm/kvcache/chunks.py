"""Cut a prompt into chunks whose keys and values are kept, and name each by all the tokens up to its end."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np

CHUNK_TOKENS: Final = 1_500
"""The most tokens of a chunk, where nobody says otherwise (CacheGen, section 5.3)."""
_LEAST_TOKENS: Final = 64
"""The fewest, and what others but full ones of `chunk_tokens` are multiples of."""
_FIRST_TOKENS, _FULL_TOKENS = 256, 128
"""The first full chunk of a prompt, and the fewest tokens of the next ones: small chunks are slow to decode."""
_GROWTH: Final = 4
"""A full chunk has this part of the tokens before it."""

_KEY_BYTES = 20


@dataclass(frozen=True, slots=True)
class Chunk:
    """The tokens `start` to `stop` of a prompt; `key` stands for the model, all tokens up to `stop`, and `start`."""

    key: str
    start: int
    stop: int

    @property
    def tokens(self) -> int:
        """Return how many tokens it has."""
        return self.stop - self.start


def prefix_chunks(
    tokens: Sequence[int], revision: str, chunk_tokens: int = CHUNK_TOKENS, salt: str = ""
) -> list[Chunk]:
    """Return the chunks that starts of a prompt may be kept as, by where they end.

    Full chunks follow one another and grow with their place to `chunk_tokens`: a long prompt has few, and prompts that
    part after 512 tokens lose a fifth at most of what they have in common. Where a start ends within one, partial
    chunks cover what is there of it, but for 63 tokens at most: they lie as the ranges of a Fenwick tree do, so that
    within each full chunk every 64 tokens one ends, and a few of them cover any part.

    `revision` names model, weights and number type: keys of different revisions never meet. Nor do those of different
    `salt`s, which keep tenants apart.
    """
    numbers = np.asarray(tokens, dtype="<u4")
    before = blake2b(_digest(f"{revision}\n{salt}".encode()))
    chunks: list[Chunk] = []
    reached = start = 0
    while start < len(numbers):
        growing = max(_FULL_TOKENS, start // _GROWTH // _LEAST_TOKENS * _LEAST_TOKENS)
        size = min(chunk_tokens, growing if start else _FIRST_TOKENS)
        for first, stop in _ranges(start, size):
            if stop > len(numbers):
                break
            before.update(numbers[reached:stop].tobytes())
            reached = stop
            chunks.append(Chunk(_digest(before.digest() + first.to_bytes(8, "little")).hex(), first, stop))
        start += size
    return chunks


def _ranges(start: int, size: int) -> list[tuple[int, int]]:
    """Return where the partial chunks of a full one begin and end, and the full one's own range, by where they end."""
    steps = range(1, -(-size // _LEAST_TOKENS))
    partial = [(start + (step & (step - 1)) * _LEAST_TOKENS, start + step * _LEAST_TOKENS) for step in steps]
    return [*partial, (start, start + size)]


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_KEY_BYTES).digest()
