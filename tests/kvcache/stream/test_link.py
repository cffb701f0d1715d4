"""The way to a store: one transfer for all who want the same, ended when nobody waits; rest for a store that failed."""

import threading
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("torch", reason="the extra 'local' is not installed")

from flightllm.errors import BitstreamError, NotFoundError, StoreUnavailableError
from flightllm.kvcache.stream.link import Link
from tests.kv_stores import MemoryStore, kv_threads
from tests.servers import await_true

DATA = bytes(range(256)) * 500


@pytest.fixture(autouse=True)
def no_threads() -> Iterator[None]:
    """See that no thread of a test goes on after it."""
    yield
    await_true(lambda: not kv_threads())


@pytest.fixture
def store() -> MemoryStore:
    """Return a store of one bitstream."""
    return MemoryStore({("a", "raw"): DATA})


def test_lookup_is_measured(store: MemoryStore) -> None:
    """Questions are answered by the store, and what they take is known afterwards."""
    link = Link(store)
    assert link.lookup(["a", "b"]) == [{"raw": len(DATA)}, {}]
    assert link.meter.round_trip(time.monotonic()) > 0


def test_answer_that_is_none(store: MemoryStore) -> None:
    """A store that tells of fewer chunks than it was asked for is not believed."""
    store.lookup = lambda keys: [{} for _ in keys[1:]]  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailableError, match="asked for 2 chunks and answered for 1"):
        Link(store).lookup(["a", "b"])


def test_rest(store: MemoryStore) -> None:
    """A store that failed is left alone for a while."""
    link = Link(store)
    assert link.up
    link.failed()
    assert not link.up


def test_who_leaves_ends_nothing_for_others(store: MemoryStore) -> None:
    """A transfer goes on while one still waits for it, and ends when nobody does; then another one can begin."""
    go = threading.Event()
    store.before = lambda _key, _part: go.wait(60)
    link = Link(store)
    first, second = (link.transfer("a", "raw", len(DATA)) for _ in range(2))
    assert first is second
    first.leave()
    go.set()
    assert second.wait(60)
    assert bytes(second.result()) == DATA
    go.clear()
    lonely = link.transfer("a", "raw", len(DATA))
    lonely.leave()
    again = link.transfer("a", "raw", len(DATA))
    assert again is not lonely
    go.set()
    assert again.wait(60)
    assert bytes(again.result()) == DATA
    await_true(lambda: store.closed == ["a"])
    assert link.meter.transfers == 0


@pytest.mark.parametrize("size", [len(DATA) - 1, len(DATA) + 1])
def test_other_size(store: MemoryStore, size: int) -> None:
    """A bitstream longer or shorter than it was said to be is not taken; no more than was said is kept of it."""
    transfer = Link(store).transfer("a", "raw", size)
    assert transfer.wait(60)
    assert transfer.received <= size
    with pytest.raises(BitstreamError, match=str(size)):
        transfer.result()


def test_what_is_not_there(store: MemoryStore) -> None:
    """What the store raises is raised where the bitstream is asked for, each time."""
    transfer = Link(store).transfer("b", "raw", 10)
    assert transfer.wait(60)
    for _ in range(2):
        with pytest.raises(NotFoundError):
            transfer.result()
