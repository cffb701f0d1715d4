"""What is loaded and saved of requests, step by step."""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from flightllm.kvcache.connector.lookups import Lookups
from flightllm.kvcache.connector.scheduling import ScheduledPrompt, Scheduling
from flightllm.kvcache.options import Saved
from flightllm.kvcache.prefixes import Cutting
from tests.kvcache.connector.stores import MemoryStore
from tests.servers import await_true

CUTTING = Cutting("model", chunk_tokens=8, min_tokens=4)
PROMPT = ScheduledPrompt("one", list(range(30)), recurring=24)
CHUNKS = CUTTING.chunks(PROMPT.tokens, "")
BLOCKS = (3, 1, 2, 7)
"""Of 8 tokens each."""


@pytest.fixture
def store() -> MemoryStore:
    """Return a store that holds the start of the prompt."""
    store = MemoryStore()
    for chunk in CHUNKS:
        store.held[chunk.key, "raw"] = b"x"
    return store


def scheduling(
    store: MemoryStore,
    saved: Saved = "hinted",
    *,
    sharing: bool = True,
    lossy: bool = False,
    cutting: Cutting = CUTTING,
    clock: Callable[[], float] = time.monotonic,
) -> Scheduling:
    """Return the scheduler's side on a store."""
    lookups = Lookups(store, ["raw"], 30.0, 5.0)
    return Scheduling(cutting, lookups, saved, block_tokens=8, sharing=sharing, lossy=lossy, clock=clock)


def matched(side: Scheduling, prompt: ScheduledPrompt, computed: int = 0) -> int | None:
    """Return how many tokens can be loaded, once the store has answered."""
    await_true(lambda: side.matched(prompt, computed) is not None)
    return side.matched(prompt, computed)


def test_load(store: MemoryStore) -> None:
    """What the store holds beyond what is computed is loaded into the request's blocks; then nothing is saved."""
    side = scheduling(store)
    assert side.matched(PROMPT, 0) is None
    assert matched(side, PROMPT, 8) == 16
    side.allocated(PROMPT, BLOCKS, 16)
    [load], saves = side.step({}, {}, {})
    assert (load.request, load.start, load.stop, load.blocks, saves) == ("one", 8, 24, BLOCKS, [])
    assert [(chunk.start, chunk.stop) for chunk in load.chunks] == [(8, 16), (16, 24)]
    side.loaded(["one"], set())
    side.allocated(PROMPT, BLOCKS, 0)
    assert side.step({"one": BLOCKS}, {}, {"one": 30}) == ([], [])


def test_last_token_is_computed(store: MemoryStore) -> None:
    """Of a prompt that is held as a whole the last token is computed."""
    side = scheduling(store)
    assert matched(side, ScheduledPrompt("all", list(range(16)))) == 15
    assert matched(side, ScheduledPrompt("part", list(range(18)))) == 16


@pytest.mark.parametrize(("window", "loaded"), [(30, 24), (25, 24), (24, 23), (23, 16), (17, 16), (16, 15), (4, 0)])
def test_first_window_is_loaded(store: MemoryStore, window: int, loaded: int) -> None:
    """Where all layers have a window, a load leaves the window's last token, so no block before it is freed."""
    side = scheduling(store, cutting=replace(CUTTING, window=window))
    assert (matched(side, PROMPT) if loaded else side.matched(PROMPT, 0)) == loaded


def test_first_window_is_saved() -> None:
    """Where all layers have a window, the chunks within the first window are saved."""
    side = scheduling(MemoryStore(), cutting=replace(CUTTING, window=20))
    assert side.matched(PROMPT, 0) is None
    assert matched(side, PROMPT) == 0
    side.allocated(PROMPT, BLOCKS, 0)
    _, saves = side.step({"one": BLOCKS}, {}, {"one": 30})
    assert [save.chunk.stop for save in saves] == [8, 16]


def test_freed_blocks_are_not_saved() -> None:
    """A block that the engine freed behind a window has no keys and values of the prompt."""
    side = scheduling(MemoryStore(), cutting=replace(CUTTING, window=24))
    assert side.matched(PROMPT, 16) is None
    assert matched(side, PROMPT, 16) == 0
    side.allocated(PROMPT, (0, 1, 2, 7), 0)
    assert side.step({"one": (0, 1, 2, 7)}, {}, {"one": 30}) == ([], [])


def test_little_is_computed(store: MemoryStore) -> None:
    """Where less than the least is to be gained the store is not even asked."""
    side = scheduling(store)
    assert side.matched(PROMPT, 24) == 0
    assert side.matched(ScheduledPrompt("short", [1, 2, 3]), 0) == 0
    assert store.calls == []


@pytest.mark.parametrize("sharing", [True, False])
def test_same_start_at_once(store: MemoryStore, sharing: bool) -> None:
    """A second request waits for the first one's load where it finds its blocks then, and loads itself where not."""
    side, second = scheduling(store, sharing=sharing), replace(PROMPT, request="two")
    assert matched(side, PROMPT) == matched(side, second) == 24
    side.allocated(PROMPT, BLOCKS, 24)
    assert side.matched(second, 0) == (None if sharing else 24)
    side.loaded(["one"], set())
    assert side.matched(second, 0) == 24


def test_failed_load(store: MemoryStore) -> None:
    """A request whose load failed is computed, and so are others of the same start for a while."""
    side = scheduling(store)
    assert matched(side, PROMPT) == 24
    side.allocated(PROMPT, BLOCKS, 24)
    side.step({}, {}, {})
    side.loaded(["one"], {1})
    assert side.matched(PROMPT, 8) == 0
    assert matched(side, replace(PROMPT, request="two")) == 0


def test_sooner_computed(store: MemoryStore) -> None:
    """A load that ended because computing is sooner is no fault of the store: others may load what it holds."""
    side = scheduling(store)
    assert matched(side, PROMPT) == 24
    side.allocated(PROMPT, BLOCKS, 24)
    side.loaded(["one"], {1}, {"one"})
    assert side.matched(PROMPT, 8) == 0
    assert matched(side, replace(PROMPT, request="two")) == 24


def test_aborted_while_it_loads(store: MemoryStore) -> None:
    """Of a request that is over before its load nothing is remembered."""
    side = scheduling(store)
    assert matched(side, PROMPT) == 24
    side.allocated(PROMPT, BLOCKS, 24)
    side.finished("one")
    side.loaded(["one"], {1})
    assert not side._computed_instead


def test_saved_as_it_is_computed() -> None:
    """A chunk is saved in the step that completes it, with the blocks of then, and once for all requests."""
    side, second = scheduling(MemoryStore()), replace(PROMPT, request="two")
    assert matched(side, PROMPT) == matched(side, second) == 0
    side.allocated(PROMPT, BLOCKS[:2], 0)
    _, saves = side.step({"one": BLOCKS[:2]}, {}, {"one": 10})
    assert [(save.chunk.stop, save.blocks) for save in saves] == [(8, (3, 1))]
    side.allocated(second, (9, 8, 5), 0)
    _, saves = side.step({"two": (9, 8, 5)}, {"one": (2,)}, {"one": 15, "two": 16})
    assert [(save.chunk.stop, save.blocks) for save in saves] == [(16, (9, 8, 5))]
    _, saves = side.step({}, {"one": (7,)}, {"one": 30, "two": 18})
    assert [(save.chunk.stop, save.blocks) for save in saves] == [(24, (3, 1, 2, 7))]
    assert side.step({}, {}, {"one": 31, "two": 30}) == ([], [])


def saved_after_load(side: Scheduling, invalid: set[int]) -> list[int]:
    """Return where chunks end that are saved of a prompt of which 16 tokens are loaded."""
    assert matched(side, PROMPT) == 16
    side.allocated(PROMPT, BLOCKS[:2], 16)
    side.step({}, {}, {})
    side.loaded(["one"], invalid)
    side.allocated(PROMPT, BLOCKS, 0)
    _, saves = side.step({"one": BLOCKS}, {}, {"one": 30})
    return [save.chunk.stop for save in saves]


@pytest.mark.parametrize(
    ("lossy", "invalid", "stops"),
    [(False, set(), [24]), (True, set(), []), (True, {1}, []), (True, {3, 1}, [8, 16, 24])],
)
def test_errors_do_not_add_up(store: MemoryStore, lossy: bool, invalid: set[int], stops: list[int]) -> None:
    """What was computed from a lossy load is not saved; where nothing of it came, or it was exact, it is."""
    del store.held[CHUNKS[-1].key, "raw"]
    assert saved_after_load(scheduling(store, lossy=lossy), invalid) == stops


def test_inexact_blocks(store: MemoryStore) -> None:
    """Nor is what another request computes from such blocks of the engine's own cache, until these are given anew."""
    del store.held[CHUNKS[-1].key, "raw"]
    side = scheduling(store, lossy=True)
    assert saved_after_load(side, set()) == []
    second = replace(PROMPT, request="two", tokens=[*range(16), *range(50, 70)])
    assert matched(side, second, 16) == 0
    side.allocated(second, (3, 1, 8, 9, 10), 0)
    assert side.step({"two": (3, 1, 8, 9, 10)}, {}, {"two": 36}) == ([], [])
    other = ScheduledPrompt("three", list(range(100, 124)), recurring=24)
    assert matched(side, other) == 0
    side.allocated(other, (3, 1), 0)
    _, saves = side.step({"three": (3, 1)}, {}, {"three": 16})
    _, more = side.step({}, {"three": (8,)}, {"three": 24})
    assert [save.chunk.stop for save in (*saves, *more)] == [8, 16, 24]


def test_blocks_after_preemption() -> None:
    """A request that was preempted has other blocks, and what is saved of it comes from these."""
    side = scheduling(MemoryStore())
    assert matched(side, PROMPT) == 0
    side.allocated(PROMPT, BLOCKS[:1], 0)
    side.step({"one": BLOCKS[:1]}, {}, {"one": 7})
    side.allocated(PROMPT, (20, 21, 22, 23), 0)
    _, saves = side.step({"one": (20, 21, 22, 23)}, {}, {"one": 30})
    assert [save.blocks for save in saves] == [(20, 21, 22, 23)] * 3


def test_lossy_load_after_preemption() -> None:
    """What a preempted request computes from a lossy load is not saved, though it was planned to be before."""
    store = MemoryStore()
    side = scheduling(store, lossy=True)
    side.allocated(PROMPT, BLOCKS[:1], 0)
    side.step({"one": BLOCKS[:1]}, {}, {"one": 7})
    for chunk in CHUNKS[:2]:
        store.held[chunk.key, "raw"] = b"x"
    assert saved_after_load(side, set()) == []


def saved_at_once(side: Scheduling, prompt: ScheduledPrompt) -> list[int]:
    """Return where chunks end that are saved of a prompt that is computed in one step."""
    blocks = range(1, len(prompt.tokens) // 8 + 2)
    side.allocated(prompt, blocks, 0)
    _, saves = side.step({prompt.request: blocks}, {}, {prompt.request: len(prompt.tokens)})
    return [save.chunk.stop for save in saves]


def test_planned_for_a_while() -> None:
    """What was sent to be saved is not sent again for a minute."""
    now = 0.0
    side = scheduling(MemoryStore(), clock=lambda: now)
    assert saved_at_once(side, PROMPT) == [8, 16, 24]
    now = 59.0
    assert saved_at_once(side, replace(PROMPT, request="two")) == []
    now = 61.0
    assert saved_at_once(side, replace(PROMPT, request="three")) == [8, 16, 24]


def test_dropped() -> None:
    """What was sent to be saved and found no room is sent again."""
    side = scheduling(MemoryStore())
    assert saved_at_once(side, PROMPT) == [8, 16, 24]
    side.dropped([chunk.key for chunk in CHUNKS[1:]])
    assert saved_at_once(side, replace(PROMPT, request="two")) == [16, 24]


def test_so_many_are_planned() -> None:
    """What was sent to be saved is remembered of so many chunks alone."""
    side = scheduling(MemoryStore())
    assert saved_at_once(side, PROMPT) == [8, 16, 24]
    for number in range(1, 101):
        other = ScheduledPrompt(str(number), range(number * 1_000, number * 1_000 + 800), recurring=800)
        assert len(saved_at_once(side, other)) == 100
    assert saved_at_once(side, replace(PROMPT, request="two")) == [8, 16, 24]


@pytest.mark.parametrize(("saved", "hint", "stops"), [("hinted", 0, []), ("all", 0, [8, 16, 24]), ("none", 20, [])])
def test_what_is_saved(saved: Saved, hint: int, stops: list[int]) -> None:
    """By default only what recurs is saved; if wanted, whole prompts, or nothing."""
    side, prompt = scheduling(MemoryStore(), saved), replace(PROMPT, recurring=hint)
    side.allocated(prompt, BLOCKS, 0)
    _, saves = side.step({"one": BLOCKS}, {}, {"one": 30})
    assert [save.chunk.stop for save in saves] == stops


def test_finished_requests_are_forgotten(store: MemoryStore) -> None:
    """Nothing stays of a request that is over."""
    side = scheduling(store, "all")
    assert matched(side, PROMPT) == 24
    side.allocated(PROMPT, BLOCKS, 24)
    side.loaded(["one"], {3})
    side.finished("one")
    assert not side._wanted
    assert not side._saving
    assert not side._computed_instead
    assert not side._loading
