"""`arc` and `s3_fifo` evict as the algorithms of their papers do, written down here again."""

import random
from collections import OrderedDict, deque
from collections.abc import Sequence

import pytest

from flightllm.kvcache.eviction.arc import Arc
from flightllm.kvcache.eviction.base import EvictionPolicy, Use
from flightllm.kvcache.eviction.s3_fifo import S3Fifo


def evicted(policy: EvictionPolicy[int], blocks: int, keys: Sequence[int]) -> list[int]:
    """Return the blocks that a cache evicts, in order, if each prompt has one block."""
    cached, found = set[int](), list[int]()
    for key in keys:
        policy.use(Use([key]), 0.0)
        if key not in cached and len(cached) == blocks:
            found.append(policy.evict(0.0))
            cached.remove(found[-1])
        cached.add(key)
        policy.hold(key)
        policy.free(key, 0.0)
    return found


class PaperArc:
    """Figure 4 of the paper, for one request after another."""

    def __init__(self, blocks: int) -> None:
        self.c, self.p = blocks, 0.0
        self.t1, self.t2 = OrderedDict[int, None](), OrderedDict[int, None]()
        self.b1, self.b2 = OrderedDict[int, None](), OrderedDict[int, None]()
        self.evicted: list[int] = []

    def replace(self, x: int) -> None:
        """Move the last block of T1 or T2 to its ghost list."""
        if self.t1 and (len(self.t1) > self.p or (x in self.b2 and len(self.t1) == self.p)):
            source, ghost = self.t1, self.b1
        else:
            source, ghost = self.t2, self.b2
        key, _ = source.popitem(last=False)
        ghost[key] = None
        self.evicted.append(key)

    def request(self, x: int) -> None:
        """Do case I, II, III or IV."""
        if x in self.t1 or x in self.t2:
            self.t1.pop(x, None)
            self.t2.pop(x, None)
            self.t2[x] = None
        elif x in self.b1:
            self.p = min(self.c, self.p + max(len(self.b2) / len(self.b1), 1))
            self.replace(x)
            del self.b1[x]
            self.t2[x] = None
        elif x in self.b2:
            self.p = max(0, self.p - max(len(self.b1) / len(self.b2), 1))
            self.replace(x)
            del self.b2[x]
            self.t2[x] = None
        else:
            self.miss(x)

    def miss(self, x: int) -> None:
        """Do case IV."""
        if len(self.t1) + len(self.b1) == self.c:
            if len(self.t1) < self.c:
                self.b1.popitem(last=False)
                self.replace(x)
            else:
                self.evicted.append(self.t1.popitem(last=False)[0])
        else:
            whole = sum(map(len, (self.t1, self.t2, self.b1, self.b2)))
            if whole >= self.c:
                if whole == 2 * self.c:
                    self.b2.popitem(last=False)
                self.replace(x)
        self.t1[x] = None


class PaperS3Fifo:
    """Algorithm 1 of the paper, for one request after another; a queue's newest block is on the left."""

    def __init__(self, blocks: int) -> None:
        self.size = blocks
        self.small, self.main, self.ghost = deque[int](), deque[int](), deque[int]()
        self.frequency: dict[int, int] = {}
        self.most_small = max(1, blocks // 10)
        self.most_main = blocks - self.most_small
        self.evicted: list[int] = []

    def request(self, x: int) -> None:
        """Do READ and INSERT."""
        if x in self.frequency:
            self.frequency[x] = min(self.frequency[x] + 1, 3)
            return
        ghost = x in self.ghost
        if ghost:
            self.ghost.remove(x)
        while len(self.frequency) >= self.size:
            self.evict()
        if ghost:
            self.main.appendleft(x)
        else:
            self.small.appendleft(x)
        self.frequency[x] = 0

    def evict(self) -> None:
        """Do EVICT."""
        if len(self.small) >= self.most_small or not self.main:
            self.evict_small()
        else:
            self.evict_main()

    def evict_small(self) -> None:
        """Do EVICTS; it ends once a block is evicted, from either queue."""
        before = len(self.evicted)
        while self.small and len(self.evicted) == before:
            key = self.small.pop()
            if self.frequency[key] > 1:
                self.frequency[key] = 0
                self.main.appendleft(key)
                if len(self.main) > self.most_main:
                    self.evict_main()
            else:
                self.ghost.appendleft(key)
                if len(self.ghost) > self.most_main:
                    self.ghost.pop()
                del self.frequency[key]
                self.evicted.append(key)

    def evict_main(self) -> None:
        """Do EVICTM."""
        while self.main:
            key = self.main.pop()
            if not self.frequency[key]:
                del self.frequency[key]
                self.evicted.append(key)
                return
            self.frequency[key] -= 1
            self.main.appendleft(key)


def requests(seed: int) -> list[int]:
    """Return keys of a hot set, of loops, and of scans."""
    drawn, found = random.Random(seed), list[int]()  # noqa: S311
    for number in range(300):
        kind = drawn.randrange(3)
        if kind == 0:
            found += [int(drawn.paretovariate(0.6)) % 60 for _ in range(20)]
        elif kind == 1:
            found += range(100, 100 + drawn.randrange(5, 40))
        else:
            found += range(1_000 + 50 * number, 1_000 + 50 * number + drawn.randrange(15))
    return found


@pytest.mark.parametrize("blocks", [1, 3, 10, 32, 70])
@pytest.mark.parametrize("seed", range(4))
def test_arc_is_the_papers(seed: int, blocks: int) -> None:
    """The same blocks are evicted, in the same order."""
    keys, paper = requests(seed), PaperArc(blocks)
    for key in keys:
        paper.request(key)
    assert paper.evicted
    assert evicted(Arc[int](blocks), blocks, keys) == paper.evicted


@pytest.mark.parametrize("blocks", [3, 10, 32, 70])
@pytest.mark.parametrize("seed", range(4))
def test_s3_fifo_is_the_papers(seed: int, blocks: int) -> None:
    """The same blocks are evicted, in the same order."""
    keys, paper = requests(seed), PaperS3Fifo(blocks)
    for key in keys:
        paper.request(key)
    assert paper.evicted
    assert evicted(S3Fifo[int](blocks), blocks, keys) == paper.evicted


def test_arc_adapts() -> None:
    """A block that is used twice outlives a scan; a return of blocks that were used once gives them more room."""
    assert 1 not in evicted(Arc[int](4), 4, [1, 1, *range(10, 30)])
    assert 1 in evicted(Arc[int](4), 4, [1, 1, *range(10, 14), 10, 11, *range(20, 30), 28, 29])


def test_blocks_in_use_keep_their_place() -> None:
    """While a block is held it is not evicted; then it has the place in its queue that it had."""
    for policy in (Arc[int](4), S3Fifo[int](4)):
        for key in (1, 2, 3):
            policy.use(Use([key]), 0.0)
            policy.free(key, 0.0)
        policy.hold(1)
        assert 1 not in policy
        assert policy.evict(0.0) == 2
        policy.free(1, 0.0)
        assert len(policy) == 2
        assert {policy.evict(0.0), policy.evict(0.0)} == {1, 3}
