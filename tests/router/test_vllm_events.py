"""What the tree expects of a real vLLM's prefix cache is what vLLM finds there."""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random

import pytest

from bench.engines import forget_prefixes
from flightllm.common.package_data import demo_model
from flightllm.config import EngineConfig
from flightllm.engines.vllm.engine import VllmEngine, create
from flightllm.llm.engine import Parameters, Request, cache_salt
from flightllm.router.fleet import Fleet
from flightllm.router.kv_events import KvSubscription
from flightllm.router.mirror import KvMirror
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.tree import pack
from tests.packages import NEEDS_VLLM
from tests.servers import await_true

pytestmark = [
    NEEDS_VLLM,
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Unclosed context:ResourceWarning"),
]

QUIET_SECONDS = 0.15
PARAMETERS = Parameters(max_tokens=3)


@dataclass
class Replica:
    """A vLLM whose prefix cache is followed."""

    engine: VllmEngine
    fleet: Fleet
    subscription: KvSubscription
    numbers: Iterator[int] = field(default_factory=count)
    last: RoutedPrompt | None = None
    """The one that was asked last, alone."""

    def settle(self) -> None:
        """Wait until all that the engine told is heard: the blocks of the last prompt, and what came after them."""
        if self.last is not None:
            await_true(self._has_last)
        before: int | None = -1
        while before != self.subscription._next:
            before = self.subscription._next
            time.sleep(QUIET_SECONDS)  # noqa: TID251 -- an answer's own blocks are known to vLLM alone

    def _has_last(self) -> bool:
        """Return whether the tree has all full blocks of the last prompt."""
        assert self.last is not None
        with self.subscription._lock:
            leaf = self.fleet.insert(self.last)
            blocks = self.fleet.tree.cached_blocks(leaf, 0)
            self.fleet.tree.prune(leaf)
        return blocks >= self.last.count // self.fleet.tree.block_tokens

    def prompt(self, request: Request) -> RoutedPrompt:
        """Return a request as the router sees it."""
        [ids] = self.engine.token_ids([request.prompt])
        return RoutedPrompt(request.id, pack(ids), 3, cache_salt(request.tenant).encode())

    def ask(self, text: str, tenant: str = "") -> tuple[int, int]:
        """Send a prompt; return how many tokens of it the tree says are cached, and how many were."""
        self.settle()
        request = Request(next(self.numbers), text, PARAMETERS, "ai_gen", "", (), tenant)
        prompt = self.prompt(request)
        with self.subscription._lock:
            leaf = self.fleet.insert(prompt)
            expected = self.fleet.cached_tokens(prompt, leaf, 0)
            self.fleet.tree.prune(leaf)
        [completion] = self.engine.generate(iter([request]), lambda: False)
        assert completion.error is None
        self.last = prompt
        return expected, completion.cached_tokens

    def ask_all(self, texts: Sequence[str]) -> tuple[int, int, int]:
        """Send prompts, many at a time; return the tokens expected to be cached, those that were, and all."""
        self.last = None
        expected: dict[int, int] = {}
        actual = total = 0

        def requests() -> Iterator[Request]:
            for text in texts:
                request = Request(next(self.numbers), text, PARAMETERS, "ai_gen", "", ())
                prompt = self.prompt(request)
                with self.subscription._lock:
                    self.fleet.assign(prompt, self.fleet.insert(prompt), 0, 0.0)
                    expected[request.id] = self.fleet.open[request.id].cached_tokens
                yield request

        for completion in self.engine.generate(requests(), lambda: False):
            with self.subscription._lock:
                self.fleet.finished(completion.id)
            actual += completion.cached_tokens
            total += completion.prompt_tokens
        return sum(expected.values()), actual, total


@pytest.fixture(scope="module")
def replica() -> Iterator[Replica]:
    """Follow an engine whose cache is smaller than what it is asked."""
    pytest.importorskip("torch", reason="the extra 'local' is not installed")
    options = {"kv_cache_memory_bytes": 8 << 20, "max_model_len": 512, "dtype": "float32", "kv_events": True}
    options["kv_eviction"] = "lru"  # so that it is known what goes
    engine = create(EngineConfig("vllm", str(demo_model()), 4, options))
    shape, address = engine.prefix_cache, engine.kv_events
    assert shape is not None
    assert shape.blocks is not None
    assert shape.blocks < 50
    assert address is not None
    fleet = Fleet(shape.block_tokens)
    fleet.add(shape.blocks, exact=True)
    subscription = KvSubscription(address, KvMirror(fleet.tree, fleet.caches[0]), threading.Lock())
    yield Replica(engine, fleet, subscription)
    subscription.close()
    engine.close()
    assert not Path(address.endpoint.removeprefix("ipc://")).exists()


def texts(seed: int, prompts: int) -> list[str]:
    """Return prompts of a few groups; those of one have long beginnings in common, and repeat."""
    random = Random(seed)  # noqa: S311 - no cryptography
    many = "a film about number {}, " * 15
    return [
        f"In the year {1900 + group} there was {many.format(*[group] * 15)}and row {random.randrange(9)}"
        for group in (random.choice((1, 2, 3, 4, 5, 6, 7)) for _ in range(prompts))
    ]


def test_one_at_a_time(replica: Replica) -> None:
    """Each prompt finds cached exactly what the tree says, also once older ones had to go."""
    seen = [replica.ask(text) for text in texts(1, 60)]
    assert [expected for expected, _ in seen] == [actual for _, actual in seen]
    assert sum(actual for _, actual in seen) > 0
    assert replica.subscription.gaps == 0


def test_evicted(replica: Replica) -> None:
    """What the cache had to let go for others is not expected any more."""
    text = "Of all the prompts that were ever sent " * 8
    replica.ask(text)
    expected, actual = replica.ask(text)
    assert expected == actual > 0
    for number in range(20):
        replica.ask(f"Number {number} " * 60)
    assert replica.ask(text) == (0, 0)
    shape = replica.engine.prefix_cache
    assert shape is not None
    assert shape.blocks is not None
    assert replica.fleet.caches[0].used <= shape.blocks


def test_tenants(replica: Replica) -> None:
    """What one tenant sent is not expected for another."""
    text = "A prompt that two tenants send, in the same words " * 5
    assert replica.ask(text, "acme") == (0, 0)
    expected, actual = replica.ask(text, "acme")
    assert expected == actual > 0
    assert replica.ask(text, "other") == (0, 0)
    assert replica.ask(text) == (0, 0)


def test_many_at_a_time(replica: Replica) -> None:
    """With prompts under way, in the mean the tree is within three points of what was cached."""
    expected, actual, total = replica.ask_all(texts(2, 150))
    assert actual > 0
    assert abs(expected - actual) / total < 0.03


def test_reset(replica: Replica) -> None:
    """After the cache was emptied, what the engine tells with its next step, nothing of before is expected."""
    replica.ask("A prompt of before " * 20)
    forget_prefixes(replica.engine)
    replica.ask("Another one " * 20)
    assert replica.ask("A prompt of before " * 20) == (0, 0)
    expected, actual = replica.ask("Another one " * 20)
    assert expected == actual > 0
