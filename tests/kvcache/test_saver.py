"""What is put into a store in the background, in every codec."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra 'local' is not installed")

import torch

from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.codec.base import decode
from flightllm.kvcache.codec.int8 import Int8Codec
from flightllm.kvcache.codec.raw import RawCodec
from flightllm.kvcache.saver import Saver
from flightllm.kvcache.store.disk import DiskStore
from tests.chunks import key_of
from tests.kvcache.connector.stores import MemoryStore
from tests.servers import await_true

CACHE = torch.randn(2, 2, 6, 3, 8)
CHUNK = Chunk("first", 0, 6)


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    """Return a store."""
    store = MemoryStore()
    yield store
    store.gate.set()


def saver(store: MemoryStore, most: int = 24) -> Saver:
    """Return what saves in two codecs."""
    return Saver(store, [RawCodec(), Int8Codec()], most, 60.0)


def test_every_codec(store: MemoryStore) -> None:
    """A chunk is kept in each codec, and counts once, with the bytes of all."""
    side = saver(store)
    side.save(CHUNK, lambda: CACHE)
    counts = side.close(30)
    assert (counts.saved, counts.bytes) == (1, sum(map(len, store.held.values())))
    assert torch.equal(decode(RawCodec(), store.held["first", "raw"]), CACHE)
    assert torch.allclose(decode(Int8Codec(), store.held["first", "int8"]), CACHE, atol=0.05)


def test_only_what_is_missing(store: MemoryStore) -> None:
    """A codec in which the store holds a chunk is not coded again; with all of them held nothing is put."""
    store.held["first", "raw"] = b"as it was"
    side = saver(store)
    side.save(CHUNK, lambda: CACHE)
    side.save(CHUNK, lambda: CACHE)
    counts = side.close(30)
    assert (counts.saved, counts.held, store.calls.count("put")) == (1, 1, 1)
    assert store.held["first", "raw"] == b"as it was"


def test_no_room(store: MemoryStore) -> None:
    """While as many tokens wait as may, others are dropped, and the end waits no longer than it is told."""
    store.gate.clear()
    side = saver(store, most=7)
    side.save(CHUNK, lambda: CACHE)
    await_true(lambda: bool(store.calls))
    assert side.save(CHUNK, lambda: CACHE)
    assert not side.is_accepting
    assert not side.save(CHUNK, lambda: CACHE)
    assert side.close(0.1).dropped == 1


def test_failures(store: MemoryStore) -> None:
    """A chunk that cannot be had fails alone; after a failure of the store it is left alone for a while."""

    def lost() -> torch.Tensor:
        raise RuntimeError("out of memory")

    side = saver(store)
    side.save(CHUNK, lost)
    side.save(CHUNK, lambda: CACHE)
    assert side._background.wait(30)
    assert side.is_accepting
    store.down = True
    side.save(Chunk("second", 6, 12), lambda: CACHE)
    assert side._background.wait(30)
    assert not side.is_accepting
    counts = side.close(30)
    assert (counts.saved, counts.failed, counts.dropped) == (1, 2, 0)


def test_a_full_store_keeps_the_start_of_a_prompt(tmp_path: Path) -> None:
    """Chunks are saved one by one, and the store evicts the last ones of a prompt first: they need the first ones."""
    keys = [key_of(number) for number in range(5)]
    size = len(RawCodec().encode(CACHE))
    with DiskStore(tmp_path, 5 * size) as store:
        side = Saver(store, [RawCodec()], 60, 60.0)
        store.lookup(keys)  # the engine asks before it computes
        for place, key in enumerate(keys):
            assert side.save(Chunk(key, 6 * place, 6 * place + 6), lambda: CACHE)
        assert side.close(30).saved == 5
        store.put(key_of(7), "raw", bytes(2 * size))
        assert [bool(sizes) for sizes in store.lookup(keys)] == [True, True, True, False, False]
