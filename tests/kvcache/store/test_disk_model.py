"""A store on disk beside a model of it: the same is held after whatever was done."""

import shutil
import tempfile
from itertools import pairwise
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from flightllm.errors import LimitExceededError, NotFoundError
from flightllm.kvcache.store.disk import DiskStore
from flightllm.kvcache.store.eviction import CHUNK_POLICIES
from tests.chunks import bitstream, key_of

MOST = 1000
NUMBERS, CODECS = st.integers(0, 5), st.sampled_from(("raw", "int8"))


PROMPTS = ((0, 1, 2, 3), (0, 1, 4, 5))
BEFORE = {after: before for prompt in PROMPTS for before, after in pairwise(prompt)}
"""The chunk right before each chunk."""


class Stores(RuleBasedStateMachine):
    """A store, and the bitstreams it is to hold, by chunk: the chunk used the longest ago first."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = DiskStore(self.folder, MOST)
        self.held: dict[int, dict[str, bytes]] = {}

    @rule(number=NUMBERS, codec=CODECS, size=st.integers(0, 1001))
    def put(self, number: int, codec: str, size: int) -> None:
        """Keep a bitstream, and evict what is too much."""
        data = bitstream(number, size)
        try:
            self.store.put(key_of(number), codec, data)
        except LimitExceededError:
            assert size > MOST
            return
        assert size <= MOST
        chunk = self.held.pop(number, {}) | {codec: data}
        while self.held and self.size() + sum(map(len, chunk.values())) > MOST:
            self.held.pop(next(iter(self.held)))
        fits = sum(map(len, chunk.values())) <= MOST
        self.held[number] = chunk if fits else {codec: data}

    def size(self) -> int:
        """Return the bytes that are held."""
        return sum(len(data) for chunk in self.held.values() for data in chunk.values())

    @rule(number=NUMBERS, codec=CODECS)
    def get(self, number: int, codec: str) -> None:
        """Read a bitstream, which makes it the one used last."""
        known = self.held.get(number, {}).get(codec)
        try:
            data = b"".join(self.store.get(key_of(number), codec))
        except NotFoundError:
            assert known is None
            return
        assert data == known
        self.held[number] = self.held.pop(number)

    @rule(number=NUMBERS)
    def delete(self, number: int) -> None:
        """Forget a chunk."""
        gone = self.held.pop(number, {})
        assert self.store.delete([key_of(number)]) == len(gone)

    @rule()
    def restart(self) -> None:
        """Close the store and open it again."""
        self.store.close()
        self.store = DiskStore(self.folder, MOST)

    @invariant()
    def same(self) -> None:
        """Lookups, the bytes counted and those on the disk are what they should be."""
        held = [self.held.get(number, {}) for number in range(6)]
        expected = [{codec: len(data) for codec, data in chunk.items()} for chunk in held]
        assert [self.store.lookup([key_of(number)])[0] for number in range(6)] == expected
        assert self.store.status().bytes == self.size()
        files = [path for path in (self.folder / "chunks").rglob("*") if path.is_file()]
        counted = (len(files), sum(path.stat().st_size for path in files))
        assert counted == (sum(map(len, held)), self.size())

    def teardown(self) -> None:
        """Remove the folder."""
        self.store.close()
        shutil.rmtree(self.folder)


class Ends(RuleBasedStateMachine):
    """A store with any policy, and the bitstreams that it can hold; what it evicts is its choice."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.can_hold: dict[int, bytes] = {}
        self.told: set[int] = set()

    @initialize(policy=st.sampled_from(CHUNK_POLICIES))
    def open(self, policy: str) -> None:
        """Open the store with a policy."""
        self.policy = policy
        self.store = DiskStore(self.folder, MOST, policy)

    @rule(prompt=st.sampled_from(PROMPTS), most=st.integers(1, 4))
    def lookup(self, prompt: tuple[int, ...], most: int) -> None:
        """Tell the store a prompt, or the start of one."""
        self.store.lookup([key_of(number) for number in prompt[:most]])
        self.told.update(prompt[:most])

    @rule(number=NUMBERS, size=st.integers(200, 300))
    def put(self, number: int, size: int) -> None:
        """Keep a bitstream. What is evicted has no held chunk right after it, unless that is the new one."""
        before = self.held()
        self.can_hold[number] = bitstream(number, size)
        self.store.put(key_of(number), "raw", self.can_hold[number])
        held = self.held()
        assert number in held
        for gone in before - held:
            assert not {one for one in held & self.told if BEFORE.get(one) == gone} - {number}

    @rule(number=NUMBERS)
    def get(self, number: int) -> None:
        """Read a bitstream."""
        if number in self.held():
            assert b"".join(self.store.get(key_of(number), "raw")) == self.can_hold[number]

    @rule(number=NUMBERS)
    def delete(self, number: int) -> None:
        """Forget a chunk."""
        self.store.delete([key_of(number)])
        assert number not in self.held()

    @rule()
    def restart(self) -> None:
        """Close the store and open it again; it no longer knows the prompts."""
        before = self.held()
        self.store.close()
        self.store = DiskStore(self.folder, MOST, self.policy)
        self.told.clear()
        assert self.held() == before

    def held(self) -> set[int]:
        """Return the chunks that the store holds; the order of eviction has the same ones."""
        held = {number for number in range(6) if self.store.lookup([key_of(number)])[0]}
        assert {number for number in range(6) if key_of(number) in self.store._order} == held
        assert len(self.store._order) == len(held)
        assert self.store.status().bytes == sum(len(self.can_hold[number]) for number in held) <= MOST
        return held

    def teardown(self) -> None:
        """Remove the folder."""
        self.store.close()
        shutil.rmtree(self.folder)


TestStores = Stores.TestCase
TestStores.settings = settings(max_examples=30, stateful_step_count=25)
TestEnds = Ends.TestCase
TestEnds.settings = settings(max_examples=50, stateful_step_count=30)
