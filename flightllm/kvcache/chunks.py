"""Cut a prompt into chunks whose keys and values are kept, and name each by all the tokens up to its end."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np

CHUNK_TOKENS: Final = 1_500
"""The most tokens of a chunk, where nobody says otherwise (CacheGen, section 5.3)."""
LEAST_TOKENS: Final = 64
"""The fewest, but at a prompt's end."""
_GROWTH: Final = 4
"""A chunk has this part of the tokens before it."""

_KEY_BYTES = 20


@dataclass(frozen=True, slots=True)
class Chunk:
    """The tokens `start` to `stop` of a prompt; `key` stands for the model and all tokens up to `stop`."""

    key: str
    start: int
    stop: int
    whole: bool = True
    """Whether every prompt that begins with these tokens has this chunk; if not, the prompt ended."""

    @property
    def tokens(self) -> int:
        """Return how many tokens it has."""
        return self.stop - self.start


def prefix_chunks(
    tokens: Sequence[int], revision: str, chunk_tokens: int = CHUNK_TOKENS, salt: str = ""
) -> list[Chunk]:
    """Return the chunks of a prompt in order.

    Chunks grow with their place, from 64 to `chunk_tokens`: prompts that have a start in common have all chunks of it
    in common but for a fifth at most, and a long prompt has few. `revision` names model, weights and number type: keys
    of different revisions never meet. Nor do those of different `salt`s, which keep tenants apart.
    """
    parent = _digest(b"", f"{revision}\n{salt}".encode())
    chunks: list[Chunk] = []
    start = 0
    while start < len(tokens):
        size = min(chunk_tokens, max(LEAST_TOKENS, start // _GROWTH // LEAST_TOKENS * LEAST_TOKENS))
        part = tokens[start : start + size]
        parent = _digest(parent, np.asarray(part, dtype="<u4").tobytes())
        chunks.append(Chunk(parent.hex(), start, start + len(part), len(part) == size))
        start += size
    return chunks


def _digest(parent: bytes, content: bytes) -> bytes:
    return blake2b(parent + content, digest_size=_KEY_BYTES).digest()
