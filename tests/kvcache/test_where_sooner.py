"""A chunk is kept in a second codec only where that one would load sooner."""

from collections.abc import Iterator

import pytest

pytest.importorskip("torch", reason="the extra 'local' is not installed")

import torch

from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.codec.base import Bitstream
from flightllm.kvcache.codec.int8 import Int8Codec
from flightllm.kvcache.codec.raw import RawCodec
from flightllm.kvcache.saver import Saver
from flightllm.kvcache.stream.adapt import Adaptive
from flightllm.kvcache.stream.base import Ladder
from flightllm.kvcache.stream.fetch import fetch
from flightllm.kvcache.stream.items import Loaded
from flightllm.kvcache.stream.link import Link
from flightllm.kvcache.stream.meter import Meter
from flightllm.kvcache.stream.prefill import Prefill
from flightllm.kvcache.stream.source import ChunkSource
from flightllm.kvcache.where_sooner import WhereSooner
from flightllm.llm.cost import Rates
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


class OnGpu(Int8Codec):
    """A codec that only hands out its layers: a GPU decodes them after the call."""

    def layers(self, data: Bitstream, device: str = "cpu") -> Iterator[torch.Tensor]:
        """Yield the layers."""
        del device
        return super().layers(data)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a clock that moves only while this process waits for the GPU: three seconds each time."""
    now = [1.0]

    class Stream:
        def synchronize(self) -> None:
            now[0] += 3.0

    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("torch.cuda.current_stream", lambda _: Stream())
    return now


def test_a_gpu_has_decoded(clock: list[float]) -> None:
    """The time of decoding includes that of the GPU, which goes on after the call."""
    meter, codec = Meter(), OnGpu()
    side = WhereSooner(meter, "int8", "raw", "cuda:0")
    for _ in range(2):
        side.learn(codec, codec.encode(CACHE), 6)
    assert meter.decode_seconds("int8", 6, clock[0]) == pytest.approx(3.0)


def test_a_gpu_has_decoded_what_was_fetched(clock: list[float], store: MemoryStore) -> None:
    """So does the time that a fetch measures."""
    codec = OnGpu()
    store.put("one", "int8", bytes(codec.encode(CACHE)))
    source = ChunkSource(
        Link(store), {"int8": codec}, Adaptive(Ladder(("int8",), "int8")), Prefill(Rates(call=60.0)), "cuda:0"
    )
    with fetch([Chunk("one", 0, 6)], source) as fetching:
        for item in fetching:
            assert isinstance(item, Loaded)
            assert len(list(item.layers)) == 2
    assert fetching.figures.decode_seconds == pytest.approx(3.0)
    assert clock == [4.0]
