"""A store on disk beside a model of it: the same is held after whatever was done."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flightllm.errors import LimitExceededError, NotFoundError
from flightllm.kvcache.store.disk import DiskStore
from tests.chunks import bitstream, key_of

MOST = 1000
NUMBERS, CODECS = st.integers(0, 5), st.sampled_from(("raw", "int8"))


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


TestStores = Stores.TestCase
TestStores.settings = settings(max_examples=30, stateful_step_count=25)
