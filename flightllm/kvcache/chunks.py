"""Cut a prompt into chunks whose keys and values are kept, and key each chunk by all tokens up to its end."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np

CHUNK_TOKENS: Final = 1_500
"""The default for the most tokens of a chunk (CacheGen, section 5.3)."""
_LEAST_TOKENS: Final = 64
"""The fewest tokens of a chunk. All sizes except `chunk_tokens` are multiples of this number."""
_FIRST_TOKENS, _FULL_TOKENS = 256, 128
"""The tokens of a prompt's first full chunk, and the fewest tokens of later ones: small chunks decode slowly."""
_GROWTH: Final = 4
"""A full chunk has as many tokens as precede it, divided by this number."""

_KEY_BYTES = 20


@dataclass(frozen=True, slots=True)
class Chunk:
    """The tokens `start` to `stop` of a prompt; `key` identifies the model, all tokens up to `stop`, and `start`."""

    key: str
    start: int
    stop: int

    @property
    def tokens(self) -> int:
        """Return the number of tokens in the chunk."""
        return self.stop - self.start


def prefix_chunks(
    tokens: Sequence[int], revision: str, chunk_tokens: int = CHUNK_TOKENS, salt: str = ""
) -> list[Chunk]:
    """Return the chunks that can hold the starts of a prompt, sorted by their ends.

    Full chunks follow each other and grow with their position up to `chunk_tokens`, so a long prompt has few chunks.
    Prompts that differ after 512 tokens lose at most a fifth of their common start.

    A start can end within a full chunk. Then partial chunks cover this part, except for at most 63 tokens. They are the
    ranges of a Fenwick tree: in each full chunk a partial chunk ends every 64 tokens, and few of them cover any part. A
    prompt of 520 tokens has these chunks (`start`-`stop`):

    | full chunk | its partial chunks   |
    |------------|----------------------|
    | 0-256      | 0-64, 0-128, 128-192 |
    | 256-384    | 256-320              |
    | 384-512    | 384-448              |

    `revision` names model, weights and number type. Different revisions never share keys. Different `salt`s, which
    separate tenants, do not share keys either.
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
    """Return the ranges of a full chunk's partial chunks and of the full chunk itself, sorted by their ends."""
    steps = range(1, -(-size // _LEAST_TOKENS))
    partial = [(start + (step & (step - 1)) * _LEAST_TOKENS, start + step * _LEAST_TOKENS) for step in steps]
    return [*partial, (start, start + size)]


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_KEY_BYTES).digest()
