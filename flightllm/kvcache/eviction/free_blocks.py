"""The blocks of a KV cache that nobody uses, in the order in which a policy gives them out: vLLM's free block queue."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain, dropwhile, islice
from typing import Generic, Protocol, TypeVar

from flightllm.kvcache.eviction.base import Policy, Use
from flightllm.kvcache.eviction.guarded import Guarded


class Block(Protocol):
    """What the queue looks at of a block."""

    @property
    def block_id(self) -> int:
        """Return its number."""

    @property
    def block_hash(self) -> Hashable | None:
        """Return what it holds; None: nothing that anybody could find."""


AnyBlock = TypeVar("AnyBlock", bound=Block)


class FreeBlocks(Generic[AnyBlock]):
    """Has the methods of vLLM's `FreeKVCacheBlockQueue`. Used by the scheduler's thread alone.

    First go blocks without content that could be found, and those whose content another free block has too; then those
    with content, by the policy (see `Guarded`); at the very last what was appended without content, as it is still
    being read.
    """

    def __init__(
        self, blocks: Iterable[AnyBlock], policy: Policy[Hashable], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._policy = Guarded(policy)
        self._clock = clock
        self._spare: OrderedDict[int, AnyBlock] = OrderedDict((block.block_id, block) for block in blocks)
        self._kept: dict[Hashable, AnyBlock] = {}
        """By content; the policy knows of these alone."""
        self._contents: dict[int, Hashable] = {}
        """By which content each of them is kept."""
        self._read: OrderedDict[int, AnyBlock] = OrderedDict()
        self.evicted = 0
        """How many blocks went by the policy."""
        self.evicting_seconds = 0.0

    @property
    def num_free_blocks(self) -> int:
        """Return how many blocks are free."""
        return len(self._spare) + len(self._kept) + len(self._read)

    def queue(self, use: Use[Hashable]) -> None:
        """Tell the policy of a prompt that waits."""
        self._policy.queue(use, self._clock())

    def cancel(self, use: Use[Hashable]) -> None:
        """Tell the policy that a prompt does not wait any more."""
        self._policy.cancel(use, self._clock())

    def use(self, use: Use[Hashable]) -> None:
        """Tell the policy what a prompt used, before its blocks come free."""
        self._policy.use(use, self._clock())

    def fail(self, error: Exception) -> None:
        """Go on by LRU, as there is no telling the policy any more; see `Guarded.fail`."""
        self._policy.fail(error)

    def popleft(self) -> AnyBlock:
        """Take out the block to go first.

        Raises:
            ValueError: there is none.
        """
        if not self.num_free_blocks:
            raise ValueError("No free blocks available")
        return self.popleft_n(1)[0]

    def popleft_n(self, n: int) -> list[AnyBlock]:
        """Take out the blocks to go first.

        Raises:
            ValueError: there are not as many.
        """
        if n > self.num_free_blocks:
            raise ValueError(f"{n} blocks were asked for, and {self.num_free_blocks} are free")
        taken = [self._spare.popitem(last=False)[1] for _ in range(min(n, len(self._spare)))]
        evicted = min(n - len(taken), len(self._kept))
        if evicted:
            started = self._clock()
            taken += [self._evict(started) for _ in range(evicted)]
            self.evicted += evicted
            self.evicting_seconds += self._clock() - started
        taken += [self._read.popitem(last=False)[1] for _ in range(n - len(taken))]
        return taken

    def remove(self, block: AnyBlock) -> None:
        """Take a block out, which is used again.

        Raises:
            RuntimeError: it is not free.
        """
        number = block.block_id
        if number in self._contents:
            content = self._contents.pop(number)
            del self._kept[content]
            self._policy.hold(content)
        elif self._spare.pop(number, None) is None and self._read.pop(number, None) is None:
            raise RuntimeError(f"remove() called on a block that is not free: {block!r}")

    def append(self, block: AnyBlock) -> None:
        """Put a block in; see `append_n`."""
        self.append_n([block])

    def append_n(self, blocks: Sequence[AnyBlock]) -> None:
        """Put blocks in that are free now, the one to go first first."""
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
        """Put blocks in that are to go before all others, in this order."""
        for block in reversed(blocks):
            self._spare[block.block_id] = block
            self._spare.move_to_end(block.block_id, last=False)

    def forget(self) -> None:
        """Have blocks go first that hold nothing any more, as after the whole cache was emptied."""
        for content, block in [(content, block) for content, block in self._kept.items() if block.block_hash is None]:
            del self._kept[content], self._contents[block.block_id]
            self._policy.hold(content)
            self._spare[block.block_id] = block

    def get_all_free_blocks(self) -> list[AnyBlock]:
        """Return all free blocks; those with content in the order in which they came free.

        Only by LRU they go in that order too: which one is next a policy knows when it is asked.
        """
        return list(self.iter_blocks_after(None))

    def iter_blocks_after(self, cursor: AnyBlock | None) -> Iterator[AnyBlock]:
        """Return free blocks in that order from behind a block, or from the first one where that is not free."""
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
