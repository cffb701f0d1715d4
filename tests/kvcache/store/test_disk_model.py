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
    """A store, and the bitstreams it is to hold, those used the longest ago first."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = DiskStore(self.folder, MOST)
        self.held: dict[tuple[int, str], bytes] = {}

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
        self.held.pop((number, codec), None)
        self.held[number, codec] = data
        while sum(map(len, self.held.values())) > MOST:
            self.held.pop(next(iter(self.held)))

    @rule(number=NUMBERS, codec=CODECS)
    def get(self, number: int, codec: str) -> None:
        """Read a bitstream, which makes it the one used last."""
        known = self.held.pop((number, codec), None)
        try:
            data = b"".join(self.store.get(key_of(number), codec))
        except NotFoundError:
            assert known is None
            return
        assert data == known
        self.held[number, codec] = data

    @rule(number=NUMBERS)
    def delete(self, number: int) -> None:
        """Forget a chunk."""
        gone = [name for name in self.held if name[0] == number]
        assert self.store.delete([key_of(number)]) == len(gone)
        for name in gone:
            del self.held[name]

    @rule()
    def restart(self) -> None:
        """Close the store and open it again."""
        self.store.close()
        self.store = DiskStore(self.folder, MOST)

    @invariant()
    def same(self) -> None:
        """Lookups, the bytes counted and those on the disk are what they should be."""
        expected: list[dict[str, int]] = [{} for _ in range(6)]
        for (number, codec), data in self.held.items():
            expected[number][codec] = len(data)
        assert self.store.lookup([key_of(number) for number in range(6)]) == expected
        size = sum(map(len, self.held.values()))
        assert self.store.status().bytes == size
        files = [path for path in (self.folder / "chunks").rglob("*") if path.is_file()]
        assert (len(files), sum(path.stat().st_size for path in files)) == (len(self.held), size)

    def teardown(self) -> None:
        """Remove the folder."""
        self.store.close()
        shutil.rmtree(self.folder)


TestStores = Stores.TestCase
TestStores.settings = settings(max_examples=30, stateful_step_count=25)
