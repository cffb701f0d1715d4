"""The plug-in in vLLM's own scheduler, without a model: what waits and ends is told, and no block is lost."""

import random
import sys
from collections.abc import Sequence
from copy import copy
from functools import wraps
from inspect import unwrap
from typing import Any

import pytest
from structlog.testing import capture_logs

from bench.models import Shape, model
from flightllm.kvcache.eviction.hint import EVICTION, ReuseHint
from flightllm.kvcache.eviction.planned import PlannedPolicy
from flightllm.kvcache.eviction.vllm import WaitingRequests, order, register
from tests.packages import NEEDS_VLLM

pytestmark = [NEEDS_VLLM, pytest.mark.vllm]

SHAPE = Shape("test-3x128-gqa", layers=3, hidden=128, intermediate=256, heads=4, kv_heads=2)
BLOCK, BLOCKS = 16, 40
LAYOUTS = ("full", "window", "both")
"""Which attention a model's layers have."""


@pytest.fixture(scope="module")
def config() -> Any:
    """Return vLLM's configuration of a small engine, whose steps are smaller than some prompts."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.utils.hashing import sha256_cbor
    from vllm.v1.core.kv_cache_utils import init_none_hash

    init_none_hash(sha256_cbor)
    return EngineArgs(
        model=str(model(SHAPE)),
        dtype="float32",
        max_model_len=512,
        block_size=BLOCK,
        max_num_seqs=6,
        max_num_batched_tokens=64,
        scheduling_policy="priority",
        async_scheduling=False,
    ).create_engine_config()


def scheduler(config: Any, layout: str = "full") -> Any:
    """Return vLLM's scheduler, whose groups of layers have such attention."""
    import torch
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, SlidingWindowSpec
    from vllm.v1.structured_output import StructuredOutputManager

    config.cache_config.num_gpu_blocks = BLOCKS
    sizes: dict[str, Any] = {"block_size": BLOCK, "num_kv_heads": 1, "head_size": 8, "dtype": torch.float32}
    full, window = FullAttentionSpec(**sizes), SlidingWindowSpec(sliding_window=2 * BLOCK, **sizes)
    specs = {"full": [full], "window": [window], "both": [full, window]}[layout]
    groups = [KVCacheGroupSpec([str(number)], spec) for number, spec in enumerate(specs)]
    cache = KVCacheConfig(num_blocks=BLOCKS, kv_cache_tensors=[], kv_cache_groups=groups)
    return Scheduler(config, cache, StructuredOutputManager(config), BLOCK)


def request(name: str, tokens: Sequence[int], *, answer: int = 2, hint: ReuseHint | None = None, **more: Any) -> Any:
    """Return a request of vLLM's."""
    from vllm import SamplingParams
    from vllm.utils.hashing import sha256_cbor
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher
    from vllm.v1.request import Request

    extra = None if hint is None else hint.extra_args()
    sampling = SamplingParams(max_tokens=answer, ignore_eos=True, extra_args=extra)
    hasher = get_request_block_hasher(BLOCK, sha256_cbor)
    return Request(name, list(tokens), sampling, None, block_hasher=hasher, **more)


class Engine:
    """A scheduler with the plug-in, whose model answers with any tokens."""

    def __init__(self, scheduler: Any, seed: int = 1) -> None:
        order(scheduler, "planned")
        self.scheduler = scheduler
        self.told: WaitingRequests = scheduler.add_request.__self__
        self.pool = scheduler.kv_cache_manager.block_pool
        self.drawn = random.Random(seed)  # noqa: S311

    @property
    def planned(self) -> PlannedPolicy[Any]:
        """Return the policy."""
        policy = self.told._free._policy._policy
        assert isinstance(policy, PlannedPolicy)
        return policy

    def step(self) -> None:
        """Compute the next tokens of the requests whose turn it is."""
        from vllm.v1.outputs import ModelRunnerOutput

        scheduled = self.scheduler.schedule()
        names = list(scheduled.num_scheduled_tokens)
        sampled = [[self.drawn.randrange(900)] if self.computed(name) else [] for name in names]
        output = ModelRunnerOutput(names, {name: place for place, name in enumerate(names)}, sampled)
        self.scheduler.update_from_output(scheduled, output)

    def computed(self, name: str) -> bool:
        """Return whether all that is known of a request's tokens is computed in this step."""
        known = self.scheduler.requests[name]
        return bool(known.num_computed_tokens >= known.num_tokens)

    def end(self) -> None:
        """Abort all requests."""
        from vllm.v1.request import RequestStatus

        self.scheduler.finish_requests(None, RequestStatus.FINISHED_ABORTED)

    def check(self) -> None:
        """Look whether exactly the blocks that nobody uses are free, each once."""
        free = [block.block_id for block in self.pool.free_block_queue.get_all_free_blocks()]
        unused = [block.block_id for block in self.pool.blocks if not block.ref_cnt and not block.is_null]
        assert sorted(free) == unused
        assert self.pool.get_num_free_blocks() == len(free)

    def check_nothing_waits(self) -> None:
        """Look whether neither the plug-in nor its policy knows of a request that waits."""
        assert self.told._waiting == {}
        assert self.planned._waiting == {}
        assert not self.planned._needed.needs


class Clients:
    """Send requests at random, and sessions that stream their input; some give up."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self.engine = engine
        self.drawn = random.Random(seed)  # noqa: S311
        self.starts = [self.tokens(160) for _ in range(4)]
        self.sessions: list[str] = []
        self.sent = self.preempted = self.aborted_waiting = 0

    def tokens(self, count: int) -> list[int]:
        """Return any tokens."""
        return [self.drawn.randrange(900) for _ in range(count)]

    def act(self) -> None:
        """Have a request or a part of one come, one be given up, or the engine go on."""
        from vllm.v1.request import RequestStatus

        kind, known = self.drawn.random(), self.engine.scheduler.requests
        if kind < 0.3:
            self.send()
        elif kind < 0.4 and self.sessions:
            name = self.drawn.choice(self.sessions)
            more = self.drawn.random() < 0.7
            if not more:
                self.sessions.remove(name)
            if more or name in known:
                self.engine.scheduler.add_request(request(name, self.tokens(20), resumable=more))
        elif kind < 0.45 and known:
            given_up = known[self.drawn.choice(list(known))]
            self.aborted_waiting += given_up.status is RequestStatus.WAITING
            self.engine.scheduler.finish_requests(given_up.request_id, RequestStatus.FINISHED_ABORTED)
            self.sessions = [name for name in self.sessions if name in known]
        else:
            before = {one.request_id: one.num_preemptions for one in known.values()}
            self.engine.step()
            self.preempted += sum(one.num_preemptions > before[one.request_id] for one in known.values())

    def send(self) -> None:
        """Send a request that shares its start with others."""
        self.sent += 1
        name, drawn = str(self.sent), self.drawn
        tokens = drawn.choice(self.starts)[: drawn.randrange(16, 160)] + self.tokens(drawn.randrange(1, 40))
        hint = drawn.choice([None, ReuseHint("site", str(drawn.randrange(3)), self.sent, drawn.randrange(200))])
        streams = drawn.random() < 0.2
        if streams:
            self.sessions.append(name)
        told = {"priority": drawn.randrange(2), "resumable": streams}
        self.engine.scheduler.add_request(request(name, tokens, answer=drawn.randrange(1, 40), hint=hint, **told))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_block_is_lost(config: Any, layout: str, seed: int, evicted: list[object]) -> None:
    """Whatever comes, streams, is preempted, given up or ends, exactly the unused blocks are free, and none waits."""
    with capture_logs() as logs:
        engine = Engine(scheduler(config, layout), seed)
        clients = Clients(engine, seed)
        for _ in range(1_500):
            clients.act()
            engine.check()
        assert len(evicted) > 100
        assert clients.preempted > 5 or layout == "window"  # whose requests hold few blocks
        assert clients.aborted_waiting > 5
        engine.end()
        engine.check()
    engine.check_nothing_waits()
    assert engine.pool.get_num_free_blocks() == BLOCKS - 1  # one stands for none
    assert [entry["event"] for entry in logs] == ["kv_eviction"]


def test_sessions(config: Any) -> None:
    """A session that streams its input waits from its first part to the message that ends it, not beyond."""
    engine = Engine(scheduler(config))
    for number in range(20):
        name = f"session {number}"
        engine.scheduler.add_request(request(name, range(40), answer=1, resumable=True))
        engine.step()
        engine.scheduler.add_request(request(name, range(40), answer=1, resumable=True))
        assert list(engine.told._waiting) == [name]
        engine.step()
        assert list(engine.told._waiting) == [name]
        engine.scheduler.add_request(request(name, [0]))
        assert name not in engine.scheduler.requests
        engine.check_nothing_waits()


@pytest.mark.parametrize("layout", ["window", "both"])
def test_sliding_windows(config: Any, layout: str) -> None:
    """What lies behind the window of a prompt that runs is not kept as what it still needs; full attention's is."""
    engine = Engine(scheduler(config, layout))
    engine.scheduler.add_request(request("long", range(18 * BLOCK)))
    assert len(engine.told._waiting["long"].keys) == (18 if layout == "both" else 0)
    for _ in range(4):
        engine.step()
    assert len(engine.planned) >= 10
    assert len(engine.planned._needed) == 0


def test_what_a_request_used(config: Any) -> None:
    """What later prompts have stays in full attention's group; what came free behind the window before may go."""
    engine = Engine(scheduler(config, "both"))
    engine.scheduler.add_request(request("one", range(4 * BLOCK), hint=ReuseHint("site", "query", 0, 2 * BLOCK)))
    while engine.scheduler.requests:
        engine.step()
    assert len(engine.planned) == 8
    assert [len(band) for band in engine.planned._awaited.values()] == [2]


@pytest.mark.parametrize("at", ["_begin", "_end"])
def test_telling_fails(config: Any, monkeypatch: pytest.MonkeyPatch, at: str, evicted: list[object]) -> None:
    """Where the plug-in itself fails requests are answered nevertheless, by LRU, and that is logged once."""

    def fail(*given: object) -> None:
        raise RecursionError(*given)

    monkeypatch.setattr(WaitingRequests, at, fail)
    with capture_logs() as logs:
        engine = Engine(scheduler(config))
        for number in range(30):
            engine.scheduler.add_request(request(str(number), engine.drawn.choices(range(900), k=60)))
            engine.step()
        while engine.scheduler.requests:
            engine.step()
            engine.check()
    assert [entry["event"] for entry in logs] == ["kv_eviction", "kv_eviction_failed"]
    assert len(evicted) > 10
    assert engine.told._waiting == {}
    assert engine.pool.get_num_free_blocks() == BLOCKS - 1


def left_alone(scheduler: Any) -> str:
    """Return why a scheduler keeps vLLM's own order."""
    queue = scheduler.kv_cache_manager.block_pool.free_block_queue
    with capture_logs() as logs:
        order(scheduler, "planned")
    assert scheduler.kv_cache_manager.block_pool.free_block_queue is queue
    [entry] = logs
    assert entry["event"] == "kv_eviction_off"
    return str(entry["reason"])


def test_a_queue_that_does_more(config: Any) -> None:
    """A free block queue that can do what ours cannot stays."""
    from vllm.v1.core.kv_cache_utils import FreeKVCacheBlockQueue

    class Queue(FreeKVCacheBlockQueue):
        def pin(self) -> None:
            """Do what is not known yet."""

    made = scheduler(config)
    made.kv_cache_manager.block_pool.free_block_queue.__class__ = Queue
    assert "unknown methods: pin" in left_alone(made)


LAZY = {"kv_connector": "SimpleCPUOffloadConnector", "kv_connector_extra_config": {"lazy_offload": True}}


@pytest.mark.parametrize(
    "given", [LAZY, {"kv_connector": "MultiConnector", "kv_connector_extra_config": {"connectors": [LAZY]}}]
)
def test_a_connector_that_foresees(config: Any, given: dict[str, Any]) -> None:
    """Beside a cache in CPU memory that looks up which blocks go next vLLM's own order stays."""
    from vllm.config import KVTransferConfig

    made = scheduler(config)
    made.vllm_config = copy(config)
    made.vllm_config.kv_transfer_config = KVTransferConfig(kv_role="kv_both", **given)
    assert "lazy_offload" in left_alone(made)


def test_an_attribute_that_is_missing(config: Any) -> None:
    """A scheduler that is put together otherwise keeps its own order."""
    made = scheduler(config)
    del made.hash_block_size
    assert "hash_block_size" in left_alone(made)


@pytest.fixture
def unregistered(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Have vLLM's scheduler be as nobody registered anything, for a test."""
    from vllm.v1.core.sched.scheduler import Scheduler

    monkeypatch.setattr(Scheduler, "__init__", unwrap(Scheduler.__init__))
    monkeypatch.setattr(Scheduler, "flightllm_kv_eviction", True, raising=False)
    monkeypatch.delattr(Scheduler, "flightllm_kv_eviction")
    return monkeypatch


def test_register_beside_others(config: Any, unregistered: pytest.MonkeyPatch) -> None:
    """Where others have decorated the scheduler too, before us or after us, it gets its policy, once."""
    from vllm.v1.core.kv_cache_utils import FreeKVCacheBlockQueue
    from vllm.v1.core.sched.scheduler import Scheduler

    def decorate() -> None:
        start = Scheduler.__init__

        @wraps(start)
        def decorated(*given: Any, **named: Any) -> None:
            start(*given, **named)

        unregistered.setattr(Scheduler, "__init__", decorated)

    asked = copy(config)
    asked.additional_config = {EVICTION: "planned"}
    decorate()
    register()
    decorate()
    register()
    with capture_logs() as logs:
        made = scheduler(asked)
        others = scheduler(config)
    assert [entry["event"] for entry in logs] == ["kv_eviction"]
    assert type(made.kv_cache_manager.block_pool.free_block_queue).__name__ == "FreeBlocks"
    assert type(others.kv_cache_manager.block_pool.free_block_queue) is FreeKVCacheBlockQueue


def test_register_without_a_scheduler(unregistered: pytest.MonkeyPatch) -> None:
    """In a vLLM that has its scheduler elsewhere nothing fails, and it is logged why nothing is changed."""
    unregistered.setitem(sys.modules, "vllm.v1.core.sched.scheduler", None)
    with capture_logs() as logs:
        register()
    [entry] = logs
    assert entry["event"] == "kv_eviction_off"
    assert "vllm.v1.core.sched.scheduler" in entry["reason"]
