"""The local engine's prefix cache: what prompts have in common is found again, and changes no answer."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from threading import Event

import pytest
from structlog.testing import capture_logs

from flightllm.common.text import shared_start
from flightllm.config import EngineConfig
from flightllm.engines import Engine, create_engine
from flightllm.errors import ConfigError
from flightllm.kvcache.eviction import POLICIES
from flightllm.llm.engine import Choice, Completion, Parameters, Regex, Request

pytest.importorskip("torch", reason="the extra 'local' is not installed")

import torch

from flightllm.engines.kv_hints import Hints
from flightllm.engines.local.model import Layers, PrefixModel
from flightllm.engines.local.prefixes import PrefixStore
from flightllm.engines.local.turns import BLOCK_TOKENS, Turn, plan_turn
from flightllm.llm.tokenizer import PromptEncoder

MakeRequests = Callable[..., list[Request]]
TOPICS = ("trains", "rain", "cats", "tea")
BLOCK_BYTES = BLOCK_TOKENS * 6 * 2 * 2 * 64 * 4
"""Of the demo model: layers, keys and values, heads, numbers of a head, bytes of a number."""


def start(**options: object) -> Engine:
    """Start an engine on the demo model."""
    return create_engine(EngineConfig("local", "demo", 8, {"device": "cpu", **options}))


def asked(topic: str, count: int = 4, parameters: Parameters | None = None, tenant: str = "") -> list[Request]:
    """Make prompts that share a start about a topic."""
    shared = f"About {topic}: read what is told here of {topic}, and think of it. " * 6
    return [
        Request(n, f"{shared}\n\nrow: number {n}\n", parameters or Parameters(max_tokens=4), "f", "", (), tenant)
        for n in range(count)
    ]


def answers(engine: Engine, requests: list[Request]) -> list[Completion]:
    """Answer requests, in their order."""
    return sorted(engine.generate(iter(requests), lambda: False), key=lambda one: one.id)


def texts(found: list[Completion]) -> list[str | None]:
    """Return the answers' texts."""
    return [one.text for one in found]


def computed(found: list[Completion]) -> int:
    """Return how many prompt tokens were computed."""
    return sum(one.prompt_tokens - one.cached_tokens for one in found)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("constraint", [None, Choice(("Yes", "No"))], ids=["text", "choice"])
def test_in_turns(count: int, constraint: Choice | None) -> None:
    """Prompts about one topic after another find their starts again, and are answered as without the cache."""
    parameters = Parameters(max_tokens=4, constraint=constraint)
    rounds = [asked(topic, count, parameters) for topic in TOPICS * 2]
    with_cache, without = start(), start(prefix_cache_bytes=0)
    found, plain = ([answers(engine, one) for one in rounds] for engine in (with_cache, without))
    assert list(map(texts, found)) == list(map(texts, plain))
    first, again = ([sum(map(computed, run[part])) for run in (found, plain)] for part in (slice(4), slice(4, 8)))
    assert first[0] <= first[1]
    assert again[0] < again[1] / 2
    with_cache.close()
    without.close()


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_few_blocks(policy: str) -> None:
    """Whatever policy says what goes, a cache that is too small for all changes no answer."""
    rounds = [asked(topic, 3) for topic in TOPICS * 3]
    small, without = start(prefix_cache_bytes=5 * BLOCK_BYTES, kv_eviction=policy), start(prefix_cache_bytes=0)
    for one in rounds:
        assert texts(answers(small, one)) == texts(answers(without, one))
    small.close()
    without.close()


def test_tenants() -> None:
    """What one tenant's prompts left in the cache is not found by another's, but by its own."""
    cached = {}
    for tenant in ("anna", "bert"):
        engine = start()
        answers(engine, asked("trains", tenant="anna"))
        answers(engine, asked("rain", tenant="anna"))
        cached[tenant] = computed(answers(engine, asked("trains", tenant=tenant)))
        engine.close()
    engine = start()
    assert cached["bert"] == computed(answers(engine, asked("trains")))
    assert cached["anna"] < cached["bert"] / 2
    engine.close()


@pytest.mark.parametrize("size", [0, 64 * BLOCK_BYTES])
def test_tenants_one_after_another(size: int) -> None:
    """Who asks right after another tenant finds nothing of what that one asked, which its own cache still has."""
    engine = start(prefix_cache_bytes=size)
    [anna, bert, again] = [answers(engine, asked("trains", 1, tenant=one))[0] for one in ("anna", "bert", "anna")]
    assert (anna.cached_tokens, bert.cached_tokens) == (0, 0)
    assert (again.cached_tokens > 0) == (size > 0)
    engine.close()


def test_tenants_together() -> None:
    """Tenants whose prompts come together share nothing either."""
    engine = start()
    [anna], [bert] = (asked("trains", 1, tenant=tenant) for tenant in ("anna", "bert"))
    assert [one.cached_tokens for one in answers(engine, [anna, replace(bert, id=1)])] == [0, 0]
    engine.close()


def test_stopped_midway() -> None:
    """Batches of a call that was stopped are waited for no longer, and the engine goes on."""
    engine = start(batch_rows=1)
    stream = engine.generate(iter(asked("trains", 6)), lambda: False)
    next(iter(stream))
    assert isinstance(stream, Iterator)
    stream.close()  # type: ignore[attr-defined]
    wanted = texts(answers(engine, asked("rain")))
    assert texts(answers(engine, asked("rain"))) == wanted
    engine.close()


def test_stopping_waits_for_nobody() -> None:
    """A call is closed at once, also while another one's batch runs."""
    engine = start(batch_rows=1)
    stream = iter(engine.generate(iter(asked("trains", 6)), lambda: False))
    next(stream)
    writing, closed, polls = Event(), Event(), count()

    def poll() -> bool:
        if next(polls) > 8:  # token by token, so in the batch
            writing.set()
            closed.wait(30)
        return False

    def write() -> None:
        list(engine.generate(iter(asked("rain", 1, Parameters(60, constraint=Regex("[0-9]{40}")))), poll))

    with ThreadPoolExecutor() as threads:
        other = threads.submit(write)
        assert writing.wait(30)
        closing = threads.submit(stream.close)  # type: ignore[attr-defined]
        at_once = not wait([closing], 10).not_done
        closed.set()
        other.result()
    assert at_once
    engine.close()


def test_too_small_for_a_block() -> None:
    """Where not even one block fits, the log says how large one is; prompts are answered all the same."""
    with capture_logs() as logs:
        small = start(prefix_cache_bytes=BLOCK_BYTES - 1)
    [entry] = logs
    assert (entry["event"], entry["bytes_of_a_block"]) == ("prefix_cache_too_small", BLOCK_BYTES)
    assert len(texts(answers(small, asked("trains")))) == 4
    small.close()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"kv_eviction": "random"}, r"kv_eviction: expected one of lru, .*planned, none, got 'random'"),
        ({"prefix_cache_bytes": -1}, "prefix_cache_bytes: must not be negative"),
    ],
)
def test_wrong_options(options: dict[str, object], told: str) -> None:
    """Wrong options are told by name, before a model is loaded."""
    with pytest.raises(ConfigError, match=told):
        start(**options)


class CrampedModel(PrefixModel):
    """A model on a machine that has no memory left for copies."""

    def kept(self, start: int, stop: int) -> Layers:
        """Ask for more memory than there is."""
        torch.empty(1 << 60)
        return super().kept(start, stop)


class Cache:
    """A cache of so many blocks beside a model, and turns of prompts by themselves."""

    def __init__(self, model_path: Path, blocks: int, model: type[PrefixModel] = PrefixModel) -> None:
        self.model = model(model_path, "cpu", "auto")
        self.prefixes = PrefixStore(self.model, blocks * BLOCK_BYTES, "planned")
        self.encoder = PromptEncoder(model_path)

    def turn(self, topic: str) -> Turn:
        """Return the turn of a prompt about a topic."""
        [request] = asked(topic, 1)
        return plan_turn([request], self.encoder.encode([request.prompt]), 0, Hints(self.encoder))

    def read(self, *topics: str) -> None:
        """Read prompts."""
        for turn in map(self.turn, topics):
            self.prefixes.prefill(self.model.prefill, turn)

    def holds(self, topic: str) -> bool:
        """Return whether all blocks of a topic's prompt are there, while the model itself keeps another's."""
        turn = self.turn(topic)
        found = shared_start(self.prefixes.held(turn.requests[0], turn.start), turn.start)
        return found >= len(turn.use.keys) * BLOCK_TOKENS


@pytest.fixture
def cache(model_path: Path) -> Cache:
    """Return a cache with room for two prompts."""
    return Cache(model_path, 8)


def test_what_waits_stays(cache: Cache) -> None:
    """Blocks of a batch that waits stay while others go; they go once it waits no longer."""
    waiting = cache.turn("trains")
    assert 2 * len(waiting.use.keys) <= 8 < 3 * len(waiting.use.keys)
    cache.read("trains")
    cache.prefixes.queue([waiting])
    cache.read("rain", "cats", "tea", "rain", "cats")
    assert cache.holds("trains")
    cache.prefixes.cancel([waiting])
    cache.read("rain", "tea", "cats", "rain", "tea")
    assert not cache.holds("trains")


def test_what_is_not_exact_is_not_kept(cache: Cache) -> None:
    """Keys and values that are only like those computed do not get into the cache."""
    turn = cache.turn("trains")
    layers = list(cache.model.kv_cache(turn.start))
    cache.model.adopt(turn.start, 0, layers, exact=0)
    cache.read("trains", "rain")
    assert not cache.holds("trains")
    exact = BLOCK_TOKENS + 3
    cache.model.adopt(turn.start, 0, layers, exact)
    cache.read("trains", "rain")
    held = cache.prefixes.held(turn.requests[0], turn.start)
    assert held == turn.start[:BLOCK_TOKENS]


def test_numbers_are_those_computed(cache: Cache) -> None:
    """What is taken over from the cache is what the model computed, also where the model keeps a part of it."""
    turn = cache.turn("trains")
    wanted = cache.model.kv_cache(turn.start[:100]).clone()
    cache.read("trains")
    for other in (cache.turn("rain").start, turn.start[:40], list(chain(turn.start[:70], [5, 6]))):
        cache.model.kv_cache(other)
        cache.read("trains")
        assert (cache.model.kv_cache(turn.start[:100]) - wanted).abs().max() < 1e-4


def test_no_memory_to_save(model_path: Path) -> None:
    """Where there is no memory for a copy, prompts are read all the same, and the log says that nothing was kept."""
    cramped = Cache(model_path, 8, CrampedModel)
    with capture_logs() as logs:
        cramped.read("trains", "rain")
    assert [entry["event"] for entry in logs] == ["prefix_save_failed"] * 2
    assert not cramped.holds("trains")
