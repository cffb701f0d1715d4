"""Chunks come in order and exact, one ahead of who decodes them; whatever fails, the rest is left to be computed."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra 'local' is not installed")

import torch
from structlog.testing import capture_logs

from bench.kv_fixed import Fixed
from flightllm.errors import StoreUnavailableError
from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.stream.adapt import Adaptive
from flightllm.kvcache.stream.base import TEXT, TEXT_CHUNK, FetchPolicy, Ladder, Situation
from flightllm.kvcache.stream.fetch import ChunkFetch, fetch
from flightllm.kvcache.stream.items import Loaded, Recompute
from flightllm.kvcache.stream.link import Link
from flightllm.kvcache.stream.prefill import Prefill
from flightllm.kvcache.stream.source import ChunkSource
from flightllm.llm.cost import Rates
from tests.kv_stores import CODECS, Kept, MemoryStore, kept, kv_threads
from tests.servers import await_true

LADDER = Ladder(("raw", "int8"), "int8")
RAW = Fixed(LADDER, "raw")
DEAR = Prefill(Rates(computed=10.0))
CHEAP = Prefill(Rates(call=0.0, computed=1e-9, cached=0.0))


@pytest.fixture(autouse=True)
def no_threads() -> Iterator[None]:
    """See that no thread of a test goes on after it."""
    yield
    await_true(lambda: not kv_threads())


@pytest.fixture
def store() -> MemoryStore:
    """Return an empty store."""
    return MemoryStore()


@pytest.fixture
def prompt(store: MemoryStore) -> Kept:
    """Return a prompt whose chunks the store holds."""
    return kept(store.put)


def source(store: MemoryStore, policy: FetchPolicy = RAW, prefill: Prefill = DEAR) -> ChunkSource:
    """Return a source of both codecs over a store."""
    return ChunkSource(Link(store), CODECS, policy, prefill)


def taken(fetching: ChunkFetch) -> tuple[list[tuple[Chunk, torch.Tensor]], Recompute | None]:
    """Return the chunks that a fetch brings, decoded, and what it leaves to be computed."""
    loaded, rest = [], None
    for item in fetching:
        assert rest is None
        if isinstance(item, Loaded):
            loaded.append((item.chunk, torch.stack(list(item.layers))))
        else:
            rest = item
    return loaded, rest


def check(prompt: Kept, fetching: ChunkFetch, count: int, reason: str | None = None) -> None:
    """See that the first `count` chunks come, bit by bit, and all the others are left to be computed."""
    loaded, rest = taken(fetching)
    assert [chunk for chunk, _ in loaded] == prompt.chunks[:count]
    assert all(torch.equal(cache, kept) for (_, cache), kept in zip(loaded, prompt.caches, strict=False))
    if reason is None:
        assert rest is None
        assert count == len(prompt.chunks)
    else:
        assert rest is not None
        assert (rest.start, rest.stop) == (prompt.chunks[count].start, prompt.chunks[-1].stop)
        assert rest.reason == fetching.figures.reason == reason
    figures = fetching.figures
    assert sum(figures.chunks.values()) == count
    assert figures.text_tokens == sum(chunk.tokens for chunk in prompt.chunks[count:])


def test_way_through(store: MemoryStore, prompt: Kept) -> None:
    """Of chunks that overlap those come that follow one another, from what is there on, as far as they reach."""
    part, other = Chunk("f" * 40, 64, 96), Chunk("e" * 40, 96, 300)
    fetching = fetch([part, *prompt.chunks, other], source(store), 70)
    loaded, rest = taken(fetching)
    assert [chunk for chunk, _ in loaded] == prompt.chunks[1:]
    assert rest == Recompute(prompt.chunks[-1].stop, 300, "missing")


@dataclass
class Computing:
    """Computes all, and remembers what that was said to take."""

    seconds: list[float] = field(default_factory=list)

    def choose(self, now: Situation) -> str:
        """Compute."""
        self.seconds.append(now.text_seconds())
        return TEXT

    def keeps(self, now: Situation, codec: str, rest: int) -> bool:
        """Go on."""
        raise NotImplementedError


def test_what_is_there_is_not_computed(store: MemoryStore, prompt: Kept) -> None:
    """Where a chunk begins with what is there, computing is taken to need what is missing alone."""
    policy = Computing()
    fetching = fetch(prompt.chunks[:1], source(store, policy), 60)
    assert taken(fetching) == ([], Recompute(60, 64, "chosen"))
    assert policy.seconds == [DEAR(60, 64)]
    assert fetching.figures.text_tokens == 4


def test_all_chunks_exactly(store: MemoryStore, prompt: Kept) -> None:
    """All come in order, and the figures tell of them."""
    fetching = fetch(prompt.chunks, source(store))
    check(prompt, fetching, 4)
    sizes = sum(len(store.held[chunk.key, "raw"]) for chunk in prompt.chunks)
    assert fetching.figures.bytes == {"raw": sizes}
    assert fetching.figures.wasted_bytes == 0
    assert fetching.figures.lookup_seconds > 0
    assert fetching.figures.decode_seconds > 0


def test_another_codec(store: MemoryStore, prompt: Kept) -> None:
    """What is decoded is what the codec makes of it."""
    loaded, rest = taken(fetch(prompt.chunks, source(store, Fixed(LADDER, "int8"))))
    assert rest is None
    for (_, cache), exact in zip(loaded, prompt.caches, strict=True):
        assert torch.equal(cache, torch.stack(list(CODECS["int8"].layers(CODECS["int8"].encode(exact)))))


def test_next_chunk_travels_meanwhile(store: MemoryStore, prompt: Kept) -> None:
    """While a chunk is in hand the next one comes, and the one after that does not yet."""
    with fetch(prompt.chunks, source(store)) as fetching:
        next(fetching)
        await_true(lambda: len(store.gets) == 2)
        await_true(lambda: kv_threads() == ["kv-ahead"])
        assert [key for key, _ in store.gets] == [chunk.key for chunk in prompt.chunks[:2]]
        next(fetching)
        await_true(lambda: len(store.gets) == 3)


def test_no_chunks(store: MemoryStore) -> None:
    """Of a prompt without chunks nothing comes, and nobody is asked."""
    assert list(fetch([], source(store))) == []
    assert store.lookups == 0


@pytest.mark.parametrize("missing", [0, 2, 3])
def test_missing_chunk(store: MemoryStore, prompt: Kept, missing: int) -> None:
    """From the first chunk on that is not held all is computed, also what is held after it."""
    for codec in CODECS:
        del store.held[prompt.chunks[missing].key, codec]
    check(prompt, fetch(prompt.chunks, source(store)), missing, "missing")


def test_codec_that_is_not_known_here(store: MemoryStore, prompt: Kept) -> None:
    """What is held in a codec that cannot be decoded here counts as missing."""
    only = replace(source(store), codecs={"raw": CODECS["raw"]})
    del store.held[prompt.chunks[1].key, "raw"]
    check(prompt, fetch(prompt.chunks, only), 1, "missing")


def test_evicted_since(store: MemoryStore, prompt: Kept) -> None:
    """A bitstream that went after it was asked for is replaced by another codec's, else computed."""

    def evict(key: str, part: int) -> None:
        if key == prompt.chunks[0].key and not part:
            store.held.pop((prompt.chunks[1].key, "raw"), None)
            store.held.pop((prompt.chunks[2].key, "raw"), None)
            store.held.pop((prompt.chunks[2].key, "int8"), None)

    store.before = evict
    fetching = fetch(prompt.chunks, source(store))
    loaded, rest = taken(fetching)
    assert [chunk for chunk, _ in loaded] == prompt.chunks[:2]
    assert rest == Recompute(prompt.chunks[2].start, prompt.chunks[-1].stop, "missing")
    assert fetching.figures.chunks == {"raw": 1, "int8": 1}


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-1], lambda data: data + b"0", lambda data: data[:500] + b"000" + data[503:]],
    ids=["short", "long", "changed"],
)
@pytest.mark.parametrize("place", [0, 3])
def test_damaged_chunk(store: MemoryStore, prompt: Kept, place: int, damage: Callable[[bytes], bytes]) -> None:
    """A chunk cut short, too long or changed is computed, with all after it; that is logged once."""
    name = prompt.chunks[place].key, "raw"
    store.held[name] = damage(store.held[name])
    with capture_logs() as logs:
        check(prompt, fetch(prompt.chunks, source(store)), place, "damaged")
    assert [log["reason"] for log in logs] == ["damaged"]


def test_another_chunk_in_its_place(store: MemoryStore, prompt: Kept) -> None:
    """A sound bitstream of another number of tokens is not taken for the chunk."""
    store.held[prompt.chunks[1].key, "raw"] = store.held[prompt.chunks[3].key, "raw"]
    check(prompt, fetch(prompt.chunks, source(store)), 1, "damaged")


def test_other_size_than_was_told(store: MemoryStore, prompt: Kept) -> None:
    """A bitstream that was replaced by a longer one after the question is not taken."""
    store.before = lambda _key, _part: store.put(prompt.chunks[2].key, "raw", bytes(1_000_000))
    check(prompt, fetch(prompt.chunks, source(store)), 2, "damaged")


@pytest.mark.parametrize(("place", "part"), [(0, 0), (1, 1), (3, 0)])
@pytest.mark.parametrize("error", [StoreUnavailableError("gone"), OSError("gone")], ids=["store", "defect"])
def test_store_gone(store: MemoryStore, prompt: Kept, place: int, part: int, error: Exception) -> None:
    """Where the store goes away, even amid a chunk, the rest is computed; that is logged once."""

    def fail(key: str, number: int) -> None:
        if (key, number) == (prompt.chunks[place].key, part):
            raise error

    store.before = fail
    with capture_logs() as logs:
        check(prompt, fetch(prompt.chunks, source(store)), place, "store")
    assert [log["reason"] for log in logs] == ["store"]


def test_store_that_cannot_be_asked(store: MemoryStore, prompt: Kept) -> None:
    """Where the question fails all is computed; for a while the store is not asked again, and nothing logged."""

    def fail() -> None:
        raise StoreUnavailableError("gone")

    store.asked = fail
    shared = source(store)
    with capture_logs() as logs:
        check(prompt, fetch(prompt.chunks, shared), 0, "store")
        check(prompt, fetch(prompt.chunks, shared), 0, "store")
    assert (len(logs), store.lookups) == (1, 1)


def test_store_that_does_not_answer(store: MemoryStore, prompt: Kept) -> None:
    """An answer is waited for no longer than computing all would take."""
    answer = threading.Event()

    def fail_late() -> None:
        answer.wait(60)
        raise StoreUnavailableError("too late")

    store.asked = fail_late
    with capture_logs() as logs:
        check(prompt, fetch(prompt.chunks, source(store, prefill=CHEAP)), 0, "store")
        answer.set()
        await_true(lambda: not kv_threads())
    assert not store.gets
    assert len(logs) == 1


def test_short_prompt(store: MemoryStore, prompt: Kept) -> None:
    """Once a round trip is known to take longer than computing, the store is not even asked."""
    short = source(store, prefill=CHEAP)
    short.link.meter.asked(0.5, time.monotonic())
    check(prompt, fetch(prompt.chunks, short), 0, "chosen")
    assert store.lookups == 0


def test_text(store: MemoryStore, prompt: Kept) -> None:
    """A policy that wants text gets it, without a transfer."""
    check(prompt, fetch(prompt.chunks, source(store, Fixed(LADDER, TEXT))), 0, "chosen")
    assert not store.gets


def test_stalled_amid_a_chunk(store: MemoryStore, prompt: Kept) -> None:
    """A transfer of which no more comes is given up once text is sooner, and ended; nothing of it is taken."""
    more = threading.Event()
    second = prompt.chunks[1].key
    store.before = lambda key, part: (key, part) == (second, 1) and more.wait(60)
    stalling = source(store, Adaptive(Ladder(("raw",), "raw")), Prefill(Rates(call=0.3, computed=1e-6)))
    fetching = fetch(prompt.chunks, stalling)
    try:
        check(prompt, fetching, 1, "chosen")
        assert fetching.figures.given_up == 1
        assert fetching.figures.wasted_bytes > 0
    finally:
        more.set()
    await_true(lambda: not kv_threads())
    assert stalling.link.meter.transfers == 0


@pytest.mark.parametrize("stalled", [0, 1])
def test_limit(store: MemoryStore, prompt: Kept, stalled: int) -> None:
    """A store that sends no more is waited for until the limit, however long computing takes; what came counts."""
    more = threading.Event()
    key = prompt.chunks[stalled].key
    store.before = lambda held, part: (held, part) == (key, 1) and more.wait(60)
    try:
        check(prompt, fetch(prompt.chunks, source(store), limit_seconds=1.0), stalled, "store")
    finally:
        more.set()
    await_true(lambda: not kv_threads())


def test_slo(store: MemoryStore, prompt: Kept) -> None:
    """Within an SLO what has elapsed counts: text where it fits, else what comes from the store."""
    plain = Prefill(Rates(call=0.0, computed=0.1, cached=0.0))  # 22 s
    adaptive = source(store, Adaptive(LADDER), plain)
    check(prompt, fetch(prompt.chunks, adaptive, slo_seconds=60.0), 0, "chosen")
    loaded, rest = taken(fetch(prompt.chunks, adaptive, slo_seconds=60.0, elapsed=59.0))
    assert len(loaded) == 4
    assert rest is None


def test_closed_early(store: MemoryStore, prompt: Kept) -> None:
    """Closing ends a transfer amid its parts, and the threads; that is nothing to log."""
    more, begun = threading.Event(), threading.Event()

    def pause(key: str, part: int) -> None:
        if (key, part) == (prompt.chunks[1].key, 1):
            begun.set()
            more.wait(60)

    store.before = pause
    with capture_logs() as logs, fetch(prompt.chunks, source(store)) as fetching:
        next(fetching)
        begun.wait(60)
    await_true(lambda: kv_threads() == ["kv-transfer"])
    more.set()
    await_true(lambda: store.closed == [prompt.chunks[1].key])
    assert fetching.figures.given_up == 0
    assert not logs


def test_one_transfer_for_all(store: MemoryStore, prompt: Kept) -> None:
    """Requests for the same prompt at the same time share its transfers; each gets all of it."""
    count, go = 4, threading.Event()
    store.before = lambda key, _part: key == prompt.chunks[0].key and go.wait(60)
    shared, found, errors = source(store), [], []

    def one() -> None:
        try:
            fetching = fetch(prompt.chunks, shared)
            first = next(fetching)
            assert isinstance(first, Loaded)
            found.append(torch.stack(list(first.layers)))
            fetching.close()
        except Exception as error:  # noqa: BLE001 - told below
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    under_way: dict[Any, Any] = shared.link._transfers
    name = prompt.chunks[0].key, "raw"
    await_true(lambda: name in under_way and under_way[name]._waiting == count)
    go.set()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert len(found) == count
    assert all(torch.equal(cache, prompt.caches[0]) for cache in found)
    assert store.gets.count(name) == 1


@dataclass
class InTurns:
    """Computes every other chunk, and loads those between them."""

    turns: list[str] = field(default_factory=lambda: [TEXT_CHUNK, "raw", TEXT_CHUNK, "raw"])

    def choose(self, now: Situation) -> str:
        """Return the next turn."""
        assert now.returns
        return self.turns.pop(0)

    def keeps(self, now: Situation, codec: str, rest: int) -> bool:
        """Go on."""
        del now, codec, rest
        return True


def test_text_for_one_chunk_and_kv_for_the_next(store: MemoryStore, prompt: Kept) -> None:
    """An engine that can return computes a chunk and loads the next one, which comes while it computes."""
    first, second, third, fourth = prompt.chunks
    with fetch(prompt.chunks, source(store, InTurns()), returns=True) as fetching:
        assert next(fetching) == Recompute(first.start, first.stop, "chosen")
        await_true(lambda: store.gets == [(second.key, "raw")])
        loaded = next(fetching)
        assert isinstance(loaded, Loaded)
        assert torch.equal(torch.stack(list(loaded.layers)), prompt.caches[1])
        assert next(fetching) == Recompute(third.start, third.stop, "chosen")
        last = next(fetching)
        assert isinstance(last, Loaded)
        assert (last.chunk, list(fetching)) == (fourth, [])
    assert fetching.figures.text_tokens == first.tokens + third.tokens
    assert fetching.figures.chunks == {"raw": 2}


@pytest.mark.parametrize("missing", [0, 1, 3])
def test_hole(store: MemoryStore, prompt: Kept, missing: int) -> None:
    """An engine that can return computes a chunk that the store lacks, and loads the ones after it."""
    for codec in CODECS:
        del store.held[prompt.chunks[missing].key, codec]
    items = list(fetch(prompt.chunks, source(store), returns=True))
    hole = prompt.chunks[missing]
    assert items.pop(missing) == Recompute(hole.start, hole.stop, "missing")
    assert [item.chunk for item in items if isinstance(item, Loaded)] == [one for one in prompt.chunks if one != hole]


def test_damaged_amid_others(store: MemoryStore, prompt: Kept) -> None:
    """An engine that can return computes only the damaged chunk."""
    name = prompt.chunks[1].key, "raw"
    store.held[name] = store.held[name][:500] + b"000" + store.held[name][503:]
    items = list(fetch(prompt.chunks, source(store), returns=True))
    assert items[1] == Recompute(prompt.chunks[1].start, prompt.chunks[1].stop, "damaged")
    assert [type(item) for item in items] == [Loaded, Recompute, Loaded, Loaded]
