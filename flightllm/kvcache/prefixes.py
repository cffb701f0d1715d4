"""Which chunks of a prompt may be in the store, and which belong there."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from flightllm.kvcache.chunks import Chunk, prefix_chunks


@dataclass(frozen=True, slots=True)
class Prefixes:
    """The chunks of a prompt: the `full` ones in order, and where the start that recurs ends within one, its `tail`."""

    full: tuple[Chunk, ...]
    tail: Chunk | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """Return all keys, in order."""
        return tuple(chunk.key for chunk in (*self.full, *([self.tail] if self.tail else [])))

    @property
    def tokens(self) -> int:
        """Return how many tokens could be loaded at most."""
        return max(self.full[-1].stop if self.full else 0, self.tail.stop if self.tail else 0)

    @property
    def contiguous(self) -> tuple[Chunk, ...]:
        """Return the chunks that follow one another without a gap or overlap, as far as they go."""
        tail = self.tail
        return self.full if tail is None else (*(chunk for chunk in self.full if chunk.stop <= tail.start), tail)

    def leading(self, held: Collection[str]) -> tuple[Chunk, ...]:
        """Return the chunks to load: those held without a gap before them."""
        found: list[Chunk] = []
        for chunk in self.full:
            if chunk.key not in held:
                break
            found.append(chunk)
        tail, covered = self.tail, found[-1].stop if found else 0
        if tail is not None and tail.key in held and tail.start <= covered < tail.stop:
            found = [*(chunk for chunk in found if chunk.stop <= tail.start), tail]
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Cutting:
    """How prompts are cut, equally wherever their chunks are to meet."""

    revision: str
    chunk_tokens: int
    min_tokens: int

    def prefixes(self, tokens: Sequence[int], recurring: int, salt: str) -> Prefixes:
        """Return the chunks that may be held of a prompt whose first tokens, so many, other prompts have too."""
        whole = prefix_chunks(tokens, self.revision, self.chunk_tokens, salt)
        full = tuple(chunk for chunk in whole if chunk.tokens == self.chunk_tokens)
        saved = self.recurring(tokens, recurring, salt)
        return Prefixes(full, saved[-1] if saved and saved[-1].tokens < self.chunk_tokens else None)

    def recurring(self, tokens: Sequence[int], recurring: int, salt: str) -> tuple[Chunk, ...]:
        """Return the chunks of a prompt's start that recurs, the last one as short as it is; none of a short start."""
        if recurring < self.min_tokens:
            return ()
        return tuple(prefix_chunks(tokens[:recurring], self.revision, self.chunk_tokens, salt))
