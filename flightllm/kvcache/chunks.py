"""Cut a prompt into chunks whose keys and values are kept, and name each by all the tokens up to its end."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np

CHUNK_TOKENS: Final = 1_500
"""Tokens of a chunk, where nobody says otherwise (CacheGen, section 5.3)."""

_KEY_BYTES = 20


@dataclass(frozen=True, slots=True)
class Chunk:
    """The tokens `start` to `stop` of a prompt; `key` stands for the model and all tokens up to `stop`."""

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
    """Return the chunks of a prompt in order, the last one shorter where it does not fill one.

    `revision` names model, weights and number type: keys of different revisions never meet. Nor do those of different
    `salt`s, which keep tenants apart.
    """
    parent = _digest(b"", f"{revision}\n{salt}".encode())
    chunks = []
    for start in range(0, len(tokens), chunk_tokens):
        part = tokens[start : start + chunk_tokens]
        parent = _digest(parent, np.asarray(part, dtype="<u4").tobytes())
        chunks.append(Chunk(parent.hex(), start, start + len(part)))
    return chunks


def _digest(parent: bytes, content: bytes) -> bytes:
    return blake2b(parent + content, digest_size=_KEY_BYTES).digest()
