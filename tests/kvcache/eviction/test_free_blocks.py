"""The free blocks: none is lost or given out twice, whatever the policy does; by LRU they go as vLLM's own do."""

import random
from collections.abc import Hashable
from dataclasses import dataclass, replace

import pytest
from structlog.testing import capture_logs

from flightllm.kvcache.eviction import POLICIES, create_policy
from flightllm.kvcache.eviction.base import Use
from flightllm.kvcache.eviction.free_blocks import Block, FreeBlocks
from flightllm.kvcache.eviction.lru import Lru

BLOCKS = 24


@dataclass(eq=False)
class Held:
    """A block, and what it holds."""

    block_id: int
    block_hash: Hashable | None = None


class Failing(Lru[Hashable]):
    """LRU that raises at the first call of one of its methods after so many calls of it."""

    def __init__(self, method: str, calls: int) -> None:
        super().__init__()
        self._method, self._left = method, calls

    def _called(self, method: str) -> None:
        if method == self._method:
            self._left -= 1
            if self._left < 0:
                raise RuntimeError("out of order")

    def queue(self, use: Use[Hashable], now: float) -> None:
        """Fail, or learn nothing."""
        self._called("queue")
        super().queue(use, now)

    def cancel(self, use: Use[Hashable], now: float) -> None:
        """Fail, or learn nothing."""
        self._called("cancel")
        super().cancel(use, now)

    def use(self, use: Use[Hashable], now: float) -> None:
        """Fail, or learn nothing."""
        self._called("use")
        super().use(use, now)

    def free(self, key: Hashable, now: float) -> None:
        """Fail, or count a block as free."""
        self._called("free")
        super().free(key, now)

    def hold(self, key: Hashable) -> None:
        """Fail, or take a block out."""
        self._called("hold")
        super().hold(key)

    def evict(self, now: float) -> Hashable:
        """Fail, or return the first."""
        self._called("evict")
        return super().evict(now)


class Lying(Lru[Hashable]):
    """Names blocks that are not free."""

    def evict(self, now: float) -> Hashable:
        """Return one that nobody knows."""
        super().evict(now)
        return "nobody's"


class Driver:
    """Has requests wait, start and end at random, as an engine does, and knows which blocks are free."""

    def __init__(self, queue: FreeBlocks[Held], seed: int) -> None:
        self.queue = queue
        self.drawn = random.Random(seed)  # noqa: S311
        self.blocks = queue.get_all_free_blocks()
        self.free = set(self.blocks)
        self.waiting: list[Use[Hashable]] = []
        self.running: list[tuple[Use[Hashable], list[Held]]] = []
        self.counts = dict.fromkeys(self.blocks, 0)

    def step(self) -> None:
        """Have requests come, start or end, or let go of what blocks hold; then look whether all is in order."""
        kind = self.drawn.random()
        if kind < 0.4:
            self.come()
        if kind < 0.5 and self.waiting:
            self.start(self.waiting[0])
        elif kind < 0.9 and self.running:
            self.end(*self.running.pop(self.drawn.randrange(len(self.running))))
        elif kind < 0.95 and self.waiting:
            self.queue.cancel(self.waiting.pop(self.drawn.randrange(len(self.waiting))))
        elif self.free:
            self.drawn.choice(sorted(self.free, key=lambda one: one.block_id)).block_hash = None  # as a reset does
        assert self.queue.num_free_blocks == len(self.free)
        listed = self.queue.get_all_free_blocks()
        assert len(listed) == len(self.free)
        assert set(listed) == self.free

    def come(self) -> None:
        """Have a request wait."""
        text = self.drawn.choice(["aaaa", "aaab", "abcd", "wxyz", "wx", "qrst"])
        keys = [text[: length + 1] for length in range(self.drawn.randint(1, len(text)))]
        number, priority = self.drawn.randrange(9), self.drawn.randrange(2)
        use: Use[Hashable] = Use(keys, len(keys) % 3, self.drawn.choice([None, 1]), "query", number, priority)
        self.waiting.append(use)
        self.queue.queue(use)

    def start(self, use: Use[Hashable]) -> None:
        """Begin a request: blocks that hold what it needs, up to the first that is missing, and new ones."""
        contents = use.keys
        found = [next((one for one in self.blocks if one.block_hash == content), None) for content in contents]
        hits = [one for one in found[: found.index(None) if None in found else len(found)] if one is not None]
        if self.drawn.random() < 0.2:
            hits = []  # one that does not read the cache: what it computes is there twice
        needed = len(contents) - len(hits) + 1
        if needed > len(self.free - set(hits)):
            return
        self.waiting.remove(use)
        for block in hits:
            if block in self.free:
                self.queue.remove(block)
                self.free.remove(block)
        taken = self.queue.popleft_n(needed) if self.drawn.random() < 0.8 else self.pop_each(needed)
        assert len(set(taken)) == needed
        assert set(taken) <= self.free
        self.free.difference_update(taken)
        for block in taken:
            block.block_hash = None
        for content, block in zip(contents[len(hits) :], taken, strict=False):
            block.block_hash = content
        for block in (*hits, *taken):
            self.counts[block] += 1
        self.running.append((use, [*hits, *taken]))

    def pop_each(self, count: int) -> list[Held]:
        """Take blocks one by one."""
        return [self.queue.popleft() for _ in range(count)]

    def end(self, waited: Use[Hashable], blocks: list[Held]) -> None:
        """End a request, of whose blocks others may use some."""
        self.queue.cancel(waited)
        self.queue.use(replace(waited, keys=[block.block_hash for block in blocks if block.block_hash is not None]))
        first, last = list[Held](), list[Held]()
        for block in reversed(blocks):
            self.counts[block] -= 1
            if not self.counts[block]:
                (first if block.block_hash is None else last).append(block)
                self.free.add(block)
        if first and self.drawn.random() < 0.1:
            self.queue.append(first.pop())
        self.queue.prepend_n(first)
        self.queue.append_n(last)

    def drain(self) -> list[int]:
        """End all requests and take out all blocks."""
        for waited, blocks in self.running:
            self.end(waited, blocks)
        for use in self.waiting:
            self.queue.cancel(use)
        return [block.block_id for block in self.queue.popleft_n(len(self.blocks))]


def queue(policy: str = "lru") -> FreeBlocks[Held]:
    """Return a queue of empty blocks."""
    return FreeBlocks([Held(number) for number in range(BLOCKS)], create_policy(policy, BLOCKS))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("policy", POLICIES)
def test_no_block_is_lost(policy: str, seed: int, evicted: list[object]) -> None:
    """Whatever waits, starts and ends, exactly the free blocks are there, each once, and no policy fails."""
    with capture_logs() as logs:
        driver = Driver(queue(policy), seed)
        for _ in range(600):
            driver.step()
        assert sorted(driver.drain()) == list(range(BLOCKS))
    assert logs == []
    assert len(evicted) > 50


@pytest.mark.parametrize("calls", [0, 7, 60])
@pytest.mark.parametrize("method", ["queue", "cancel", "use", "free", "hold", "evict"])
def test_a_policy_that_fails(method: str, calls: int) -> None:
    """LRU goes on in its place with all blocks, and that is logged once."""
    with capture_logs() as logs:
        driver = Driver(FreeBlocks([Held(number) for number in range(BLOCKS)], Failing(method, calls)), 3)
        for _ in range(600):
            driver.step()
        assert sorted(driver.drain()) == list(range(BLOCKS))
    [entry] = logs
    assert entry["event"] == "kv_eviction_failed"
    assert (entry["policy"], entry["instead"]) == ("Failing", "lru")
    assert "out of order" in entry["reason"]


def test_a_policy_that_lies() -> None:
    """One that names a block which is not free is replaced too."""
    with capture_logs() as logs:
        driver = Driver(FreeBlocks([Held(number) for number in range(BLOCKS)], Lying()), 3)
        for _ in range(200):
            driver.step()
        assert sorted(driver.drain()) == list(range(BLOCKS))
    assert [entry["event"] for entry in logs] == ["kv_eviction_failed"]


def test_order() -> None:
    """Empty blocks go first, then those whose content is there twice, the policy's, and last what is being read."""
    free = queue()
    blocks = free.popleft_n(BLOCKS)
    for block, content in zip(blocks, ["a", "b", "a"], strict=False):
        block.block_hash = content
    free.append(blocks[5])
    free.append_n(blocks[:3])
    free.prepend_n(blocks[3:5])
    assert [block.block_id for block in free.get_all_free_blocks()] == [3, 4, 0, 1, 2, 5]
    assert [block.block_id for block in free.iter_blocks_after(blocks[0])] == [1, 2, 5]
    assert [block.block_id for block in free.iter_blocks_after(blocks[7])] == [3, 4, 0, 1, 2, 5]
    assert [block.block_id for block in free.popleft_n(6)] == [3, 4, 0, 1, 2, 5]


def test_an_emptied_cache() -> None:
    """Blocks that hold nothing any more go before those that do, and none is lost."""
    free = queue()
    blocks = free.popleft_n(BLOCKS)
    for block in blocks:
        block.block_hash = f"content {block.block_id}"
    free.append_n(blocks)
    for block in blocks[4:]:
        block.block_hash = None
    free.forget()
    assert [block.block_id for block in free.popleft_n(BLOCKS)] == [*range(4, BLOCKS), *range(4)]


def test_misuse() -> None:
    """What vLLM's own queue refuses is refused: more blocks than are free, and to take out one that is used."""
    free = queue()
    block, *_ = free.popleft_n(BLOCKS)
    with pytest.raises(ValueError, match="No free blocks"):
        free.popleft()
    with pytest.raises(ValueError, match="1 blocks were requested, but only 0 are free"):
        free.popleft_n(1)
    with pytest.raises(RuntimeError, match="not free"):
        free.remove(block)


@pytest.mark.vllm
@pytest.mark.parametrize("seed", range(5))
def test_by_lru_as_vllm(seed: int) -> None:
    """By LRU blocks go in the very order of vLLM's own queue, where no content is there twice."""
    utils = pytest.importorskip("vllm.v1.core.kv_cache_utils", reason="vLLM is not installed")
    sides = [[utils.KVCacheBlock(number) for number in range(BLOCKS)] for _ in range(2)]
    ours: FreeBlocks[Block] = FreeBlocks(sides[0], Lru())
    theirs = utils.FreeKVCacheBlockQueue(sides[1])
    drawn, used, fresh = random.Random(seed), list[int](), 0  # noqa: S311
    for _ in range(500):
        assert ours.num_free_blocks == theirs.num_free_blocks
        assert ids(ours.get_all_free_blocks()) == ids(theirs.get_all_free_blocks())
        if drawn.random() < 0.5:
            count = drawn.randint(0, ours.num_free_blocks)
            taken = ids(ours.popleft_n(count))
            assert taken == ids(theirs.popleft_n(count))
            used += taken
            continue
        if ours.num_free_blocks and drawn.random() < 0.5:
            number = drawn.choice(ids(theirs.get_all_free_blocks()))
            ours.remove(sides[0][number])
            theirs.remove(sides[1][number])
            used.append(number)
            continue
        drawn.shuffle(used)
        empty = [used.pop() for _ in range(len(used) // 3)]
        full = [used.pop() for _ in range(len(used) // 2)]
        for side in sides:
            for number in (*empty, *full):
                side[number].reset_hash()
            for place, number in enumerate(full):
                side[number].set_block_hash(b"%d" % (fresh + place))
        fresh += len(full)
        for free, side in zip((ours, theirs), sides, strict=True):
            free.prepend_n([side[number] for number in empty])
            free.append_n([side[number] for number in full])


def ids(blocks: list[Block]) -> list[int]:
    """Return the blocks' numbers."""
    return [block.block_id for block in blocks]
