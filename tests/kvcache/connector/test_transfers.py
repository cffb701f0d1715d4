"""The worker's side: chunks out of one paged memory and into another, in the background."""

import threading
from collections.abc import Iterator

import pytest

pytest.importorskip("torch", reason="the extra 'local' is not installed")

import torch

from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.codec.base import Bitstream, Codec
from flightllm.kvcache.codec.int8 import Int8Codec
from flightllm.kvcache.codec.raw import RawCodec
from flightllm.kvcache.connector.loading import Loading
from flightllm.kvcache.connector.paged import PagedMemory
from flightllm.kvcache.connector.saving import ChunkCopier
from flightllm.kvcache.connector.tasks import LoadTask, Save
from flightllm.kvcache.saver import Saver
from flightllm.kvcache.stream.adapt import Adaptive
from flightllm.kvcache.stream.base import Ladder
from flightllm.kvcache.stream.link import Link
from flightllm.kvcache.stream.prefill import Prefill
from flightllm.kvcache.stream.source import ChunkSource
from flightllm.llm.cost import Rates
from tests.kvcache.connector.memories import BLOCKS, TOKENS, memory
from tests.kvcache.connector.stores import MemoryStore
from tests.servers import await_true

FIRST, SECOND = Chunk("first", 0, 6), Chunk("second", 6, 10)
SOURCE, TARGET = (2, 0, 5), (1, 4, 3)
RAW = RawCodec()
ALL = torch.arange(BLOCKS * TOKENS)
LOAD = LoadTask("one", (FIRST, SECOND), 0, 10, TARGET)


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    """Return a store."""
    store = MemoryStore()
    yield store
    store.gate.set()


@pytest.fixture
def source() -> PagedMemory:
    """Return a memory full of numbers."""
    paged = memory("transposed keys")
    for layer in range(paged.layers):
        paged.write(layer, ALL, torch.randn(2, len(ALL), paged.shape.heads, paged.shape.head_dim))
    return paged


def saving(store: MemoryStore, source: PagedMemory, most: int = 24, pause: float = 60.0) -> ChunkCopier:
    """Return what saves from a memory."""
    return ChunkCopier(Saver(store, [RawCodec()], most, pause), source, TOKENS)


def loading(
    store: MemoryStore, target: PagedMemory, seconds: float = 30, codec: Codec = RAW, **rates: float
) -> Loading:
    """Return what loads into a memory, in an engine that computes slowly."""
    prefill = Prefill(Rates(**{"computed": 10.0, **rates}))
    source = ChunkSource(Link(store), {codec.name: codec}, Adaptive(Ladder((codec.name,), codec.name)), prefill)
    return Loading(source, target, TOKENS, seconds)


@pytest.fixture
def full(store: MemoryStore, source: PagedMemory) -> MemoryStore:
    """Return the store with both chunks saved."""
    side = saving(store, source)
    side.take([Save("one", FIRST, SOURCE), Save("one", SECOND, SOURCE)])
    counts = side.close(30)
    assert (counts.saved, counts.bytes) == (2, sum(map(len, store.held.values())))
    return store


def ended(side: Loading) -> tuple[set[str], set[int]]:
    """Return the first loads that end, and the blocks they missed."""
    found: list[tuple[set[str], set[int]]] = []

    def some() -> bool:
        found.append(side.finished())
        return bool(found[-1][0])

    await_true(some)
    return found[-1]


@pytest.mark.parametrize("start", [0, 4, 8])
def test_there_and_back(full: MemoryStore, source: PagedMemory, start: int) -> None:
    """Chunks go into other blocks of a memory that is ordered otherwise, from the token on that is wanted."""
    target = memory("heads first")
    side = loading(full, target)
    side.start(LoadTask("one", tuple(one for one in (FIRST, SECOND) if one.stop > start), start, 9, TARGET))
    assert ended(side) == ({"one"}, set())
    assert side.tokens == 9 - start
    wanted = source.read(source.slots(SOURCE, TOKENS, start, 9))
    assert torch.equal(target.read(target.slots(TARGET, TOKENS, start, 9)), wanted)
    untouched = torch.tensor(sorted(set(ALL.tolist()) - set(target.slots(TARGET, TOKENS, start, 9).tolist())))
    assert not target.read(untouched).any()


def damaged(store: MemoryStore) -> None:
    """Change a byte of the second chunk."""
    data = bytearray(store.held["second", "raw"])
    data[-9] ^= 1
    store.held["second", "raw"] = bytes(data)


def of_another_model(store: MemoryStore) -> None:
    """Put a chunk of fewer layers, whole in itself, in the second one's place."""
    store.held["second", "raw"] = RawCodec().encode(torch.ones(1, 2, 4, 3, 8))


def of_other_numbers(store: MemoryStore) -> None:
    """Put a chunk of another number type in its place."""
    store.held["second", "raw"] = RawCodec().encode(torch.ones(2, 2, 4, 3, 8, dtype=torch.float16))


def gone(store: MemoryStore) -> None:
    """Forget it."""
    del store.held["second", "raw"]


@pytest.mark.parametrize("fault", [damaged, of_another_model, of_other_numbers, gone])
def test_failed_chunk(full: MemoryStore, source: PagedMemory, fault: object) -> None:
    """A chunk that cannot be used is missing from the block on that it begins in; what is before it is there."""
    assert callable(fault)
    fault(full)
    target = memory("tokens first")
    side = loading(full, target)
    side.start(LOAD)
    assert ended(side) == ({"one"}, {4, 3})
    assert side.tokens == 6
    wanted = source.read(source.slots(SOURCE, TOKENS, 0, 4))
    assert torch.equal(target.read(target.slots(TARGET, TOKENS, 0, 4)), wanted)


def test_silent_store(full: MemoryStore) -> None:
    """A load is given up at its time though the store never answers, and others are not held up."""
    full.gate.clear()
    side = loading(full, memory("heads first"), 0.2)
    for number in range(9):
        side.start(LoadTask(str(number), (FIRST,), 0, 6, TARGET))
    ends: list[set[str]] = []
    await_true(lambda: bool(ends.append(side.finished()[0])) or not side._jobs)  # type: ignore[func-returns-value]
    assert set().union(*ends) == {str(number) for number in range(9)}
    assert (side.tokens, side.chosen) == (0, set())
    assert "lookup" in full.calls


def test_sooner_computed(full: MemoryStore) -> None:
    """Where computing is sooner than even asking, nothing is loaded, and the store is not asked."""
    full.calls.clear()
    side = loading(full, memory("heads first"), call=0.0, computed=0.0)
    side.start(LOAD)
    assert ended(side) == ({"one"}, {1, 4, 3})
    assert side.chosen == {"one"}
    assert full.calls == []


@pytest.mark.parametrize(("gone", "loaded"), [("raw", "int8"), ("int8", "raw")])
def test_any_codec(store: MemoryStore, source: PagedMemory, gone: str, loaded: str) -> None:
    """A chunk that is held in another codec than the first is loaded in that one."""
    codecs: dict[str, Codec] = {"raw": RAW, "int8": Int8Codec()}
    side = ChunkCopier(Saver(store, list(codecs.values()), 4, 60.0), source, TOKENS)
    side.take([Save("one", FIRST, SOURCE)])
    assert side.close(30).saved == 1
    del store.held["first", gone]
    target = memory("heads first")
    adaptive = Adaptive(Ladder(("raw", "int8"), gone))
    other = Loading(ChunkSource(Link(store), codecs, adaptive, Prefill(Rates(computed=10.0))), target, TOKENS, 30)
    other.start(LoadTask("one", (FIRST,), 0, 6, TARGET))
    assert ended(other) == ({"one"}, set())
    wanted = torch.stack(list(codecs[loaded].layers(store.held["first", loaded])))
    assert torch.equal(target.read(target.slots(TARGET, TOKENS, 0, 6)), wanted)


class HaltingCodec(RawCodec):
    """Waits before the second layer."""

    def __init__(self) -> None:
        self.halted, self.go = threading.Event(), threading.Event()

    def layers(self, data: Bitstream, device: str = "cpu") -> Iterator[torch.Tensor]:
        """Yield a layer, wait, and yield the others."""
        for number, layer in enumerate(super().layers(data, device)):
            if number:
                self.halted.set()
                self.go.wait(30)
            yield layer


def test_nothing_is_written_after_the_end(full: MemoryStore) -> None:
    """Once a load is told to have failed its blocks may be another's: a late layer is not written."""
    codec, target = HaltingCodec(), memory("heads first")
    side = loading(full, target, 0.2, codec)
    side.start(LOAD)
    codec.halted.wait(30)
    assert ended(side) == ({"one"}, {1, 4, 3})
    codec.go.set()
    assert side._background.wait(30)
    first, second = target.read(ALL)
    assert first.any()
    assert not second.any()


def test_nothing_is_saved_twice(full: MemoryStore, source: PagedMemory) -> None:
    """A chunk that the store holds is not coded again."""
    side = saving(full, source)
    side.take([Save("one", FIRST, SOURCE)])
    assert side.close(30).held == 1
    assert full.calls.count("put") == 2


def test_copied_at_once(store: MemoryStore, source: PagedMemory) -> None:
    """What is saved is what the blocks held when the step ended, whatever they hold when the store is ready."""
    wanted = source.read(source.slots(SOURCE, TOKENS, 0, 6))
    store.gate.clear()
    side = saving(store, source)
    side.take([Save("one", FIRST, SOURCE)])
    for layer in range(source.layers):
        source.write(layer, ALL, torch.zeros(2, len(ALL), source.shape.heads, source.shape.head_dim))
    store.gate.set()
    assert side.close(30).saved == 1
    assert torch.equal(torch.stack(list(RawCodec().layers(store.held["first", "raw"]))), wanted)


def test_full_queue(store: MemoryStore, source: PagedMemory) -> None:
    """While the store is slow chunks are dropped and counted, and the end does not wait longer than it may."""
    store.gate.clear()
    side = saving(store, source, most=13)
    side.take([Save("one", FIRST, SOURCE)])
    await_true(lambda: bool(store.calls))
    side.take([Save(str(number), Chunk(str(number), 0, 6), SOURCE) for number in range(9)])
    counts = side.close(0.1)
    assert (counts.saved, counts.dropped) == (0, 7)


def test_nothing_after_a_gap(store: MemoryStore, source: PagedMemory) -> None:
    """Once a chunk of a request found no room those after it are dropped, though there is room again."""
    chunks = [Chunk(str(number), 0, 6) for number in range(5)]
    store.gate.clear()
    side = saving(store, source, most=7)

    def saves() -> Iterator[Save]:
        yield Save("one", chunks[0], SOURCE)
        await_true(lambda: bool(store.calls))
        yield Save("one", chunks[1], SOURCE)
        yield Save("one", chunks[2], SOURCE)
        store.gate.set()
        assert side._saver._background.wait(30)
        yield Save("one", chunks[3], SOURCE)
        yield Save("two", chunks[4], SOURCE)

    side.take(saves())
    counts = side.close(30)
    assert (counts.saved, counts.dropped, side.dropped) == (3, 2, {"2", "3"})
    assert {key for key, _ in store.held} == {"0", "1", "4"}


def test_dead_store(store: MemoryStore, source: PagedMemory) -> None:
    """A store that is down is tried once; what comes then is dropped without a copy."""
    store.down = True
    side = saving(store, source)
    side.take([Save("one", FIRST, SOURCE)])
    assert side._saver._background.wait(30)
    side.take([Save("one", SECOND, SOURCE)] * 3)
    counts = side.close(30)
    assert (counts.failed, counts.dropped, store.calls) == (1, 3, ["lookup"])
