"""vLLM's cache of chunks in CPU memory by our policies: its own manager loses none, and what is planned for stays."""

import random
from typing import Any

import pytest
from structlog.testing import capture_logs

from flightllm.kvcache.eviction.hint import ReuseHint
from tests.packages import NEEDS_VLLM

pytestmark = [NEEDS_VLLM, pytest.mark.vllm]

NAMES = ("WorkloadAwareCachePolicy", "PlannedCachePolicy")
CHUNKS = 16


def manager(name: str) -> Any:
    """Return vLLM's manager with a policy, found as its configuration names it."""
    from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager

    return CPUOffloadingManager(CHUNKS, name, "flightllm.kvcache.eviction.offload", enable_events=True)


def context(name: str, keys: list[Any], hint: ReuseHint | None = None) -> Any:
    """Return what goes with a request whose chunks are `keys`."""
    from vllm.v1.kv_offload.base import ReqContext

    made = ReqContext(name, kv_transfer_params=None if hint is None else hint.extra_args())
    for place, key in enumerate(keys):
        made.set_offload_key_position(key, 16 * (place + 1))
    return made


def chunks(text: str) -> list[Any]:
    """Return keys of chunks, each of which stands for all before it."""
    from vllm.v1.kv_offload.base import make_offload_key

    return [make_offload_key(text[: end + 1].encode(), 0) for end in range(len(text))]


def store(cache: Any, text: str, hint: ReuseHint | None = None) -> list[Any]:
    """Have a request store its chunks, and end; return those that went for it."""
    keys = chunks(text)
    asked = context(text, keys, hint)
    output = cache.prepare_store(keys, asked)
    assert output is not None
    cache.complete_store(output.keys_to_store, asked)
    cache.on_request_finished(asked)
    return list(output.evicted_keys)


def holds(cache: Any, text: str) -> bool:
    """Return whether all chunks of a text can be loaded."""
    from vllm.v1.kv_offload.base import LookupResult

    return all(cache.lookup(key, context("look", [])) is LookupResult.HIT for key in chunks(text))


def test_planned() -> None:
    """What a query is done with goes before what nobody planned anything of."""
    cache = manager("PlannedCachePolicy")
    store(cache, "abcdef")
    for number, text in enumerate(["pqrs", "uvwx", "1234", "5678"]):
        store(cache, text, ReuseHint("site", "query", number, 0))
    assert holds(cache, "abcdef")
    assert holds(cache, "5678")
    assert not holds(cache, "p")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", NAMES)
def test_no_chunk_is_lost(name: str, seed: int) -> None:
    """Whatever requests load and store, or fail to, as many chunks are there as the manager counts."""
    from vllm.v1.kv_offload.base import LookupResult

    drawn, cache = random.Random(seed), manager(name)  # noqa: S311
    texts = ["".join(drawn.choice("ab") for _ in range(drawn.randint(1, 9))) for _ in range(40)]
    with capture_logs() as logs:
        for number in range(300):
            text = drawn.choice(texts)
            keys = chunks(text)
            asked = context(str(number), keys, ReuseHint("site", "query", number, drawn.choice([None, 0, 32])))
            held = [key for key in keys if cache.lookup(key, asked) is LookupResult.HIT]
            if held:
                cache.prepare_load(held, asked)
            output = cache.prepare_store(keys, asked)
            if output is not None:
                assert not set(output.evicted_keys) & set(keys)
                cache.complete_store(output.keys_to_store, asked, success=drawn.random() < 0.9)
            if held:
                cache.complete_load(held, asked)
            cache.on_request_finished(asked)
            idle = cache._num_evictable_cache_chunks
            assert idle == len(cache._policy._idle)
            assert idle + cache._get_num_free_chunks() == CHUNKS
        cache.reset_cache()
        assert len(cache._policy._idle) == 0
        assert store(cache, "abcd") == []
    assert logs == []


@pytest.mark.parametrize("name", NAMES)
def test_all_or_nothing(name: str) -> None:
    """Where not enough chunks may go none goes; those protected stay; `insert` takes what later versions give it."""
    from vllm.v1.kv_offload.cpu.policies.base import ChunkStatus

    from flightllm.kvcache.eviction import offload

    cache = getattr(offload, name)(4)
    for number, key in enumerate(chunks("abcd")):
        chunk = ChunkStatus(number)
        chunk.ref_cnt = 0
        cache.insert(key, chunk, *((object(),) if number % 2 else ()))
    protected = set(chunks("ab"))
    absent = set(chunks("xyz"))
    assert cache.evict(3, protected | absent) is None
    gone = cache.evict(2, protected | absent)
    assert {key for key, _ in gone} == set(chunks("abcd")[2:])
    assert all(cache.get(key) is not None for key in protected)
    assert {key for key, _ in cache.evict(2, set())} == protected
