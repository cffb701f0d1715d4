"""The unused blocks of a KV cache, in a policy's order of eviction: a replacement of vLLM's free block queue."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain, dropwhile, islice
from typing import Generic, Protocol, TypeVar

from flightllm.kvcache.eviction.base import EvictionPolicy, Use
from flightllm.kvcache.eviction.guarded import Guarded


class Block(Protocol):
    """The attributes of a block that the queue reads."""

    @property
    def block_id(self) -> int:
        """Return the block's number."""

    @property
    def block_hash(self) -> Hashable | None:
        """Return the hash that identifies the block's content; None if the prefix cache cannot find the block."""


AnyBlock = TypeVar("AnyBlock", bound=Block)


class FreeBlocks(Generic[AnyBlock]):
    """A queue with the methods of vLLM's `FreeKVCacheBlockQueue`. No thread except the scheduler's must use it.

    The order of eviction is:

    1. blocks whose content the prefix cache cannot find, and blocks whose content another free block also has,
    2. blocks with content, as the policy chooses (see `Guarded`),
    3. blocks that were appended without content, because something still reads them.
    """

    def __init__(
        self, blocks: Iterable[AnyBlock], policy: EvictionPolicy[Hashable], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._policy = Guarded(policy)
        self._clock = clock
        self._spare: OrderedDict[int, AnyBlock] = OrderedDict((block.block_id, block) for block in blocks)
        self._kept: dict[Hashable, AnyBlock] = {}
        """Blocks by content; the policy knows only these blocks."""
        self._contents: dict[int, Hashable] = {}
        """The content of each kept block, by the block's number."""
        self._read: OrderedDict[int, AnyBlock] = OrderedDict()

    @property
    def num_free_blocks(self) -> int:
        """Return the number of free blocks."""
        return len(self._spare) + len(self._kept) + len(self._read)

    def queue(self, use: Use[Hashable]) -> None:
        """Report a waiting prompt to the policy."""
        self._policy.queue(use, self._clock())

    def cancel(self, use: Use[Hashable]) -> None:
        """Report to the policy that a prompt no longer waits."""
        self._policy.cancel(use, self._clock())

    def use(self, use: Use[Hashable]) -> None:
        """Report to the policy which blocks a prompt used, before they are freed."""
        self._policy.use(use, self._clock())

    def fail(self, error: Exception) -> None:
        """Continue with LRU, because reports to the policy failed; see `Guarded.fail`."""
        self._policy.fail(error)

    def popleft(self) -> AnyBlock:
        """Remove and return the next block to evict.

        Raises:
            ValueError: no block is free.
        """
        if not self.num_free_blocks:
            raise ValueError("No free blocks available")
        return self.popleft_n(1)[0]

    def popleft_n(self, n: int) -> list[AnyBlock]:
        """Remove and return the next `n` blocks to evict.

        Raises:
            ValueError: fewer than `n` blocks are free.
        """
        if n > self.num_free_blocks:
            raise ValueError(f"{n} blocks were requested, but only {self.num_free_blocks} are free")
        taken = [self._spare.popitem(last=False)[1] for _ in range(min(n, len(self._spare)))]
        evicted = min(n - len(taken), len(self._kept))
        if evicted:
            now = self._clock()
            taken += [self._evict(now) for _ in range(evicted)]
        taken += [self._read.popitem(last=False)[1] for _ in range(n - len(taken))]
        return taken

    def remove(self, block: AnyBlock) -> None:
        """Remove a block that is used again.

        Raises:
            RuntimeError: the block is not free.
        """
        number = block.block_id
        if number in self._contents:
            content = self._contents.pop(number)
            del self._kept[content]
            self._policy.hold(content)
        elif self._spare.pop(number, None) is None and self._read.pop(number, None) is None:
            raise RuntimeError(f"remove() called on a block that is not free: {block!r}")

    def append(self, block: AnyBlock) -> None:
        """Add a block; see `append_n`."""
        self.append_n([block])

    def append_n(self, blocks: Sequence[AnyBlock]) -> None:
        """Add freed blocks, in their order of eviction."""
        now = self._clock()
        for block in blocks:
            content = block.block_hash
            if content is None:
                self._read[block.block_id] = block
                continue
            before = self._kept.get(content)
            if before is not None:
                del self._contents[before.block_id]
                self._spare[before.block_id] = before
            self._kept[content] = block
            self._contents[block.block_id] = content
            self._policy.free(content, now)

    def prepend_n(self, blocks: Sequence[AnyBlock]) -> None:
        """Add blocks that must be evicted before all others, in this order."""
        for block in reversed(blocks):
            self._spare[block.block_id] = block
            self._spare.move_to_end(block.block_id, last=False)

    def forget(self) -> None:
        """Make blocks without content the first to evict; a reset of the whole cache takes blocks' content."""
        for content, block in [(content, block) for content, block in self._kept.items() if block.block_hash is None]:
            del self._kept[content], self._contents[block.block_id]
            self._policy.hold(content)
            self._spare[block.block_id] = block

    def get_all_free_blocks(self) -> list[AnyBlock]:
        """Return all free blocks; blocks with content are in the order in which they were freed.

        Only LRU evicts in that order; other policies choose the next block when they are asked.
        """
        return list(self.iter_blocks_after(None))

    def iter_blocks_after(self, cursor: AnyBlock | None) -> Iterator[AnyBlock]:
        """Return the free blocks after `cursor`, in the order of `get_all_free_blocks`.

        If `cursor` is not free, return all free blocks.
        """
        kept = (self._kept[content] for content in self._policy)
        blocks = chain(self._spare.values(), kept, self._read.values())
        if cursor is None or not self._is_free(cursor):
            return blocks
        return islice(dropwhile(lambda block: block is not cursor, blocks), 1, None)

    def _is_free(self, block: AnyBlock) -> bool:
        return any(block.block_id in blocks for blocks in (self._spare, self._contents, self._read))

    def _evict(self, now: float) -> AnyBlock:
        block = self._kept.pop(self._policy.evict(now))
        del self._contents[block.block_id]
        return block
