"""Chunks fetched from a Flight server behind a slow link: adapted to it, given up with it, and gone with it."""

from collections.abc import Iterator
from contextlib import closing

import pytest

pytest.importorskip("torch", reason="the extra 'local' is not installed")

import torch

from bench.network import Network
from flightllm.kvcache.stream.adapt import Adaptive
from flightllm.kvcache.stream.base import Ladder
from flightllm.kvcache.stream.fetch import fetch
from flightllm.kvcache.stream.items import Loaded, Recompute
from flightllm.kvcache.stream.link import Link
from flightllm.kvcache.stream.prefill import Prefill
from flightllm.kvcache.stream.source import ChunkSource
from flightllm.llm.cost import Rates
from tests.kv_stores import CODECS, FlightStore, Kept, flight_chunks, kept, kv_threads
from tests.servers import await_true

LADDER = Ladder(("raw", "int8"), "raw")
SECONDS = Prefill(Rates(call=4.0, computed=0.0, cached=0.0))
HOURS = Prefill(Rates(call=7_200.0, computed=0.0, cached=0.0))
"""Computing that takes longer than any transfer, also on a busy machine."""


@pytest.fixture
def prompt_behind() -> Iterator[tuple[Kept, Network, FlightStore]]:
    """Serve a prompt of 4 chunks, about 6 MB each as `raw`, behind a link."""
    with flight_chunks() as server:
        prompt = kept(server.put, tokens=256, channels=768)
        with Network(f"127.0.0.1:{server.port}") as network, closing(FlightStore(network.address)) as store:
            yield prompt, network, store
    await_true(lambda: not kv_threads())


def test_exact_through_a_link(prompt_behind: tuple[Kept, Network, FlightStore]) -> None:
    """All chunks come unchanged through a link that is fast enough, and its rate is found."""
    prompt, network, store = prompt_behind
    network.limit(0.4)
    source = ChunkSource(Link(store), CODECS, Adaptive(LADDER), HOURS)
    items = list(fetch(prompt.chunks, source))
    assert len(items) == 4
    for item, exact in zip(items, prompt.caches, strict=True):
        assert isinstance(item, Loaded)
        assert torch.equal(torch.stack(list(item.layers)), exact)


def test_link_that_becomes_slow(prompt_behind: tuple[Kept, Network, FlightStore]) -> None:
    """When the link breaks down amid a chunk the transfer is given up, and the rest computed."""
    prompt, network, store = prompt_behind
    network.limit(0.2)
    source = ChunkSource(Link(store), CODECS, Adaptive(LADDER), SECONDS)
    with fetch(prompt.chunks, source) as fetching:
        assert isinstance(next(fetching), Loaded)
        network.limit(0.0001)
        rest = list(fetching)
    assert isinstance(rest[-1], Recompute)
    assert rest[-1].reason == "chosen"
    assert rest[-1].stop == prompt.chunks[-1].stop
    assert fetching.figures.given_up >= 1
    assert fetching.figures.text_tokens == rest[-1].stop - rest[-1].start


def test_smaller_on_a_slow_link(prompt_behind: tuple[Kept, Network, FlightStore]) -> None:
    """With an SLO that nothing can meet, as the link turns out to be, chunks come as small as they can."""
    prompt, network, store = prompt_behind
    network.limit(0.1)
    source = ChunkSource(Link(store), CODECS, Adaptive(LADDER), Prefill(Rates(call=60.0)))
    with fetch(prompt.chunks, source, slo_seconds=0.05) as fetching:
        codecs = [item.codec for item in fetching if isinstance(item, Loaded)]
    assert len(codecs) == 4
    assert codecs[1:] == ["int8"] * 3


def test_link_that_breaks(prompt_behind: tuple[Kept, Network, FlightStore]) -> None:
    """When the connection goes amid a chunk the rest is computed."""
    prompt, network, store = prompt_behind
    network.limit(0.2)
    source = ChunkSource(Link(store), CODECS, Adaptive(LADDER), Prefill(Rates(call=600.0)))
    with fetch(prompt.chunks, source) as fetching:
        assert isinstance(next(fetching), Loaded)
        network.close()
        rest = list(fetching)
    assert isinstance(rest[-1], Recompute)
    assert rest[-1].reason == "store"
