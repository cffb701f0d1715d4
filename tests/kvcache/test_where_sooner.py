"""A chunk is kept in a second codec only where that one would load sooner."""

from collections.abc import Iterator

import pytest

pytest.importorskip("torch", reason="the extra 'local' is not installed")

import torch

from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.codec.int8 import Int8Codec
from flightllm.kvcache.codec.raw import RawCodec
from flightllm.kvcache.saver import Saver
from flightllm.kvcache.stream.meter import Meter
from flightllm.kvcache.where_sooner import WhereSooner
from tests.kvcache.connector.stores import MemoryStore

CACHE = torch.randn(2, 2, 6, 3, 8)


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    """Return a store."""
    store = MemoryStore()
    yield store
    store.gate.set()


def known(first: float, second: float) -> Meter:
    """Return a meter that knows the seconds to decode 1,000 tokens in each codec."""
    meter = Meter()
    for _ in range(2):
        meter.decoded("first", 1_000, first, 0.0)
        meter.decoded("second", 1_000, second, 0.0)
    return meter


@pytest.mark.parametrize(("rate", "worth"), [(1e9, True), (1e8, True), (1e7, False)])
def test_where_decoding_is_the_bottleneck(monkeypatch: pytest.MonkeyPatch, rate: float, worth: bool) -> None:
    """On a fast link the quicker codec is worth its bytes; on a slow one it is not."""
    monkeypatch.setattr("time.monotonic", lambda: 1.0)
    side = WhereSooner(known(0.1, 0.02), "first", "second")
    side.sent(1_000_000, 1_000_000 / rate)
    assert side.is_worth("second", 2_000_000, 1_000) == worth
    assert side.is_worth("first", 2_000_000, 1_000)


def test_saves_teach_the_speed_of_decoding(store: MemoryStore) -> None:
    """The first two chunks are kept in both codecs and decoded once more; after that both speeds are known."""
    meter = Meter()
    side = Saver(store, [RawCodec(), Int8Codec()], 1_000, 60.0, WhereSooner(meter, "int8", "raw"))
    side.save(Chunk("one", 0, 6), lambda: CACHE)
    side.save(Chunk("two", 0, 6), lambda: CACHE)
    side.close(30)
    assert set(store.held) == {(key, codec) for key in ("one", "two") for codec in ("int8", "raw")}
    assert meter.is_known("int8")
    assert meter.is_known("raw")


def test_the_size_in_the_first_codec_decides(store: MemoryStore) -> None:
    """A chunk that the store holds in another, larger codec is not judged by the size of that one."""
    asked = list[tuple[str, int]]()

    class Asked(WhereSooner):
        def is_worth(self, codec: str, size: int, tokens: int) -> bool:
            asked.append((codec, size))
            return super().is_worth(codec, size, tokens)

    store.held["one", "int8"] = b"small"
    store.held["one", "old"] = b"a larger one"
    side = Saver(store, [RawCodec(), Int8Codec()], 1_000, 60.0, Asked(Meter(), "int8", "raw"))
    side.save(Chunk("one", 0, 6), lambda: CACHE)
    side.close(30)
    assert asked == [("raw", len(b"small"))]
