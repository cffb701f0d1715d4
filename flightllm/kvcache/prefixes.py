"""Which chunks of a prompt may be in the store, and which belong there."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import takewhile

from flightllm.kvcache.chunks import Chunk, prefix_chunks


@dataclass(frozen=True, slots=True)
class Cutting:
    """How prompts are cut, equally wherever their chunks are to meet."""

    revision: str
    chunk_tokens: int
    min_tokens: int

    def chunks(self, tokens: Sequence[int], salt: str) -> tuple[Chunk, ...]:
        """Return the chunks that may be held of a prompt."""
        cut = prefix_chunks(tokens, self.revision, self.chunk_tokens, salt)
        return tuple(chunk for chunk in cut if chunk.whole)

    def recurring(self, tokens: Sequence[int], recurring: int, salt: str) -> tuple[Chunk, ...]:
        """Return the chunks to keep of a prompt whose first tokens, so many, recur; none of a short start."""
        if recurring < self.min_tokens:
            return ()
        return self.chunks(tokens[:recurring], salt)


def leading(chunks: Sequence[Chunk], held: Collection[str]) -> tuple[Chunk, ...]:
    """Return the chunks to load: those held without a gap before them."""
    return tuple(takewhile(lambda chunk: chunk.key in held, chunks))
