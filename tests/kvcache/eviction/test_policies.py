"""Each eviction policy evicts blocks in its order, and no policy loses a block."""

import math
import random
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import count

import pytest

from bench.eviction_belady import Belady
from bench.eviction_fifo import Fifo
from flightllm.errors import ConfigError
from flightllm.kvcache.eviction import POLICIES, create_policy, workload_aware
from flightllm.kvcache.eviction.base import EvictionPolicy, Use
from flightllm.kvcache.eviction.gdsf import Gdsf
from flightllm.kvcache.eviction.lru import Lru
from flightllm.kvcache.eviction.planned import PlannedPolicy
from flightllm.kvcache.eviction.two_queues import TwoQueues
from flightllm.kvcache.eviction.workload_aware import WorkloadAware

PROMPTS = [[number // 3, *range(100 * number, 100 * number + number % 7)] for number in range(400)]
"""The blocks of 400 prompts; three prompts at a time share their first block."""


def run(policy: EvictionPolicy[int], *prompts: str, seconds: float = 1.0, kind: str = "", since: float = 0.0) -> float:
    """Run prompts one after the other, a block for each character; return the time when the last prompt ended."""
    now = since
    for prompt in prompts:
        keys = [ord(character) for character in prompt]
        policy.use(Use(keys, kind), now)
        for key in keys:
            policy.hold(key)
        for key in reversed(keys):
            policy.free(key, now)
        now += seconds
    return now


def gone(policy: EvictionPolicy[int], count: int, now: float = 1e6) -> str:
    """Evict `count` blocks; return them in order."""
    return "".join(chr(policy.evict(now)) for _ in range(count))


def test_lru() -> None:
    """The block used least recently is evicted first; of one prompt, the last block."""
    policy = Lru[int]()
    run(policy, "abc", "xy", "ab")
    assert gone(policy, 5) == "cyxba"


def test_fifo() -> None:
    """The block computed first is evicted first, even if it was used since; an evicted block comes back as new."""
    policy = Fifo[int](100)
    run(policy, "abc", "xy", "ab")
    assert gone(policy, 2) == "cb"
    run(policy, "ab")
    assert gone(policy, 4) == "ayxb"


def test_gdsf() -> None:
    """A block used often stays until newer blocks have been used as often."""
    policy = Gdsf[int](100)
    run(policy, "ab", "ab", "ab", "xy")
    assert gone(policy, 2) == "yx"
    run(policy, "pq")
    assert gone(policy, 2) == "qp"
    run(policy, "uv", "uv")
    assert gone(policy, 4) == "bavu"


def test_two_queues() -> None:
    """A scan does not evict blocks that came back after an eviction."""
    policy = TwoQueues[int](8)
    run(policy, "ab", "cdefgh")
    assert gone(policy, 2) == "ba"
    run(policy, "ab")
    run(policy, "ijklmn")
    assert "a" not in gone(policy, 10)
    assert gone(policy, 2) == "ba"


def test_belady() -> None:
    """The block whose next use is the latest, or that is never used again, is evicted first."""
    prompts = ["ab", "cd", "c", "a", "b"]
    policy = Belady([[ord(character) for character in prompt] for prompt in prompts])
    run(policy, *prompts[:2])
    assert gone(policy, 4) == "dbac"


def test_classes_that_come_back_stay() -> None:
    """Blocks of prompts that come back stay, even if blocks of a scan were used more recently."""
    policy = WorkloadAware[int](100)
    now = 0.0
    for number in range(60):
        now = run(policy, "ab", kind="chat", since=now)
        now = run(policy, chr(1_000 + 2 * number) + chr(1_001 + 2 * number), kind="scan", since=now)
    assert set(gone(policy, 120, now)).isdisjoint("ab")
    assert gone(policy, 2, now + 100.0) == "ba"


def test_the_example_of_use() -> None:
    """The table in the docstring of `WorkloadAware.use` holds."""
    policy = WorkloadAware[int](100)
    policy.use(Use([1], "site"), 0.0)
    policy.use(Use([1, 2, 3, 4], "site"), 1.0, [False, False, False, True])
    names = {id(block_class): name for name, block_class in policy._table.classes.items()}
    shapes = [(2, "start"), (2, "middle"), (2, "middle"), ("done", "end")]
    assert [names[id(policy._last_uses[key].block_class)] for key in range(1, 5)] == [("site", one) for one in shapes]


def test_the_examples_of_statistics() -> None:
    """The table of likelihoods and the fitted probability in the docstrings hold."""
    statistics = workload_aware._ReuseStatistics(probability=0.5, rate=0.2)
    assert [round(statistics.likelihood(age), 3) for age in (0.0, 5.0, 10.0)] == [0.316, 0.17, 0.075]
    statistics = workload_aware._ReuseStatistics(uses=2.0, next_fit=4.0, rate=math.log(5.0), early=1.0)
    statistics.count_uses(1.0)
    statistics.count_reuses(4.0)
    assert statistics.early == pytest.approx(1.2)
    assert statistics.probability == pytest.approx((1 + 0.5) / (3 - 1.2 + 1))
    assert statistics.rate == 1 / (4.0 * 0.25)


def test_uses_whose_reuse_can_still_come_are_no_failures() -> None:
    """All blocks come again, after 20 s in the mean: recent uses do not hide that."""
    statistics, drawn = workload_aware._ReuseStatistics(), random.Random(1)  # noqa: S311
    waits = [(second, drawn.expovariate(1 / 20)) for second in range(100)]
    for second, _ in waits:
        statistics.count_uses(float(second))
        for seconds in [seconds for at, seconds in waits if second - 1 <= at + seconds < second]:
            statistics.count_reuses(seconds)
    statistics._fit()
    assert statistics.reuses / statistics.uses < 0.85
    assert statistics.probability > 0.9


def test_counting_together() -> None:
    """Uses of neighbouring blocks are counted together, with the figures of counting them one by one."""
    together, apart = (
        workload_aware._BlockClass[int](0, workload_aware._ReuseStatistics(workload_aware._ReuseStatistics()))
        for _ in range(2)
    )
    for number in range(200):
        workload_aware._count(together, together if number else None, 4.0, 8, float(number))
        for _ in range(8):
            if number:
                apart.statistics.count_reuses(4.0)
            apart.statistics.count_uses(float(number))
        one, other = together.statistics, apart.statistics
        assert (one.uses, one.reuses, one.next_fit) == (other.uses, other.reuses, other.next_fit)
        assert (one.probability, one.rate) == pytest.approx((other.probability, other.rate))
    assert together.statistics.is_alike(8)
    assert not together.statistics.is_alike(1_000)


def asked_twice() -> WorkloadAware[int]:
    """Return a policy that has seen prompts come twice, one kind soon and one late, and a new prompt of each kind."""
    policy = WorkloadAware[int](1_000)
    for number in range(40):
        kind, seconds = ("soon", 1.0) if number % 2 else ("late", 60.0)
        pair = chr(1_000 + 2 * number) + chr(1_001 + 2 * number)
        run(policy, pair, pair, kind=kind, seconds=seconds, since=200.0 * number)
    run(policy, "xy", kind="late", since=8_000.0)
    run(policy, "pq", kind="soon", since=8_010.0)
    return policy


def test_what_was_expected_and_did_not_come_goes() -> None:
    """A block expected soon stays longest; once it is overdue, it is evicted before a block expected late."""
    assert gone(asked_twice(), 84, 8_010.1)[-4:] == "yxqp"
    assert gone(asked_twice(), 84, 8_040.0)[-4:] == "qpyx"


def test_new_call_sites_are_like_others() -> None:
    """Blocks of a new call site stay for a while if blocks of other call sites are used again soon."""
    policy, now = WorkloadAware[int](1_000), 0.0
    for number in range(40):
        now = run(policy, *[chr(1_000 + 2 * number) + chr(1_001 + 2 * number)] * 2, kind="old", since=now)
    now = run(policy, "xy", kind="old", since=now)
    run(policy, "pq", kind="new", since=now)
    assert gone(policy, 84, now + 0.5)[-4:] == "yxqp"


def use(keys: str, number: int, ahead: int | None, query: str = "q") -> Use[int]:
    """Return the use of blocks, one for each character, by a prompt of a query."""
    return Use([ord(character) for character in keys], query, ahead, query, number)


def take(policy: EvictionPolicy[int], *prompts: Use[int], now: float = 0.0) -> None:
    """Run prompts: use their blocks, then free them."""
    for prompt in prompts:
        policy.use(prompt, now)
        for key in reversed(prompt.keys):
            policy.free(key, now)


def test_planned_bands() -> None:
    """Evict blocks that a query is done with first, then unplanned blocks, then blocks of its later prompts."""
    policy = PlannedPolicy[int](100)
    take(policy, use("abcd", 0, 2), Use([ord("x"), ord("y")]))
    assert gone(policy, 6, 1.0) == "dcyxba"


def test_what_waits_stays() -> None:
    """Blocks of waiting prompts are evicted last, the one needed last first; a cancelled prompt needs no blocks."""
    policy, first, second = PlannedPolicy[int](100), use("ab", 1, 0), use("ac", 2, 0)
    take(policy, use("abcd", 0, 3))
    policy.queue(first, 0.0)
    policy.queue(second, 0.0)
    policy.queue(third := use("d", 3, 0), 0.0)
    assert gone(policy, 2, 1.0) == "dc"
    policy.cancel(third, 1.0)
    assert gone(policy, 2, 1.0) == "ba"


def test_what_begins_first_stays() -> None:
    """The block of the waiting prompt that runs first stays longest: by priority, then by arrival."""
    policy = PlannedPolicy[int](100)
    waiting = [Use([ord(key)], priority=priority) for key, priority in [("a", 0), ("b", -1), ("c", 0), ("d", -1)]]
    for use in waiting:
        policy.free(use.keys[0], 0.0)
        policy.queue(use, 0.0)
    assert gone(policy, 2, 1.0) == "ca"
    policy.queue(Use([ord("d")], priority=-2), 1.0)
    assert gone(policy, 2, 1.0) == "bd"


def test_out_of_order() -> None:
    """If two prompts of a query plan a block differently, the later prompt decides, whichever ends first."""
    policy = PlannedPolicy[int](100)
    take(policy, use("ab", 5, 0), use("ab", 4, 2), use("xy", 6, 2))
    assert gone(policy, 4, 1.0) == "bayx"


def test_used_by_others() -> None:
    """A block that a query is done with counts by its class once an unplanned prompt has used it."""
    policy = PlannedPolicy[int](100)
    take(policy, use("ab", 0, 0), use("xy", 1, 0), Use([ord("a")]))
    assert gone(policy, 4, 1.0) == "byxa"


def test_queries_that_end() -> None:
    """Once a query is over or stands still, its blocks count as unplanned; the ends of its prompts still go first."""
    policy = PlannedPolicy[int](100)
    take(policy, use("abcd", 0, 2))
    policy.end("q")
    take(policy, use("pq", 0, 1, "next"))
    assert gone(policy, 6, 1.0) == "dcqbap"
    take(policy, use("ab", 0, 2, "still"), now=3.0)
    take(policy, use("pq", 0, 1, "next"), now=90.0)
    assert gone(policy, 4, 100.0) == "qbap"
    take(policy, use("ab", 0, 2, "one"), use("ab", 0, 0, "two"), Use([ord("x")]), now=101.0)
    assert gone(policy, 3, 102.0) == "xba"


def test_a_query_that_waits_is_not_over() -> None:
    """Blocks for later prompts of a query stay as long as new prompts of the query start to wait."""
    policy = PlannedPolicy[int](100)
    take(policy, use("ab", 0, 2), Use([ord("x")], "more"))
    policy.queue(use("y", 1, 0), 20.0)
    assert gone(policy, 3, 45.0) == "xba"


def test_a_prompt_waits_until_cancelled() -> None:
    """Only `cancel` ends the wait of a prompt, not a use of the same blocks and those of the answer."""
    policy, waiting = PlannedPolicy[int](100), use("ab", 0, 0)
    policy.queue(waiting, 0.0)
    policy.queue(waiting, 0.0)
    take(policy, use("abc", 0, 0), Use([ord("x"), ord("y")]))
    policy.cancel(use("ab", 0, 0), 1.0)
    assert gone(policy, 2, 1.0) == "cy"
    policy.cancel(waiting, 1.0)
    policy.cancel(waiting, 1.0)
    assert gone(policy, 3, 1.0) == "bax"


@pytest.mark.parametrize("name", [*POLICIES])
def test_what_nobody_told_of(name: str) -> None:
    """Blocks that no prompt used can be freed, held and evicted like other blocks."""
    policy = POLICIES[name](4)
    policy.free(1, 0.0)
    policy.free(2, 0.0)
    policy.hold(1)
    policy.hold(3)
    policy.use(Use([4, 5]), 1.0)
    assert len(policy) == 1
    assert policy.evict(2.0) == 2
    policy.free(4, 2.0)
    policy.free(4, 2.0)
    assert len(policy) == 1


def entries(policy: object) -> int:
    """Return how many entries a policy keeps, those of its parts included."""
    kept = list(vars(policy).values())
    nested = sum(entries(value) for value in kept if type(value).__module__.startswith("flightllm"))
    return nested + sum(len(value) for value in kept if isinstance(value, Collection))


@pytest.mark.parametrize("name", [*POLICIES])
def test_what_is_lost_is_forgotten(name: str) -> None:
    """The memory of a policy does not grow with lost blocks, queries and call sites."""
    policy, sizes = POLICIES[name](4), list[int]()
    for number in range(4_000):
        policy.use(Use([2 * number, 2 * number + 1], number, 1, number), float(number))
        policy.free(2 * number, float(number))
        policy.hold(2 * number)
        sizes.append(entries(policy))
    assert max(sizes[2_000:]) <= max(sizes[:2_000])


def test_unknown_policy() -> None:
    """The error for an unknown policy lists the known policies."""
    with pytest.raises(ConfigError, match="lru, 2q, gdsf, arc, s3_fifo, workload_aware, planned"):
        create_policy("mru", 10)


def plan(number: int) -> tuple[int | None, int, int]:
    """Return the blocks shared with later prompts (None: no plan, every fifth prompt), the query and the number."""
    return (None if number % 5 == 0 else number % 4), number // 50, number


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", [*POLICIES, "belady", "fifo"])
def test_no_block_is_lost(name: str, seed: int) -> None:
    """Blocks are freed, held and evicted in random order: each free block is evicted exactly once."""
    made: dict[str, Callable[[int], EvictionPolicy[int]]] = {
        **POLICIES,
        "belady": lambda _: Belady(PROMPTS),
        "fifo": Fifo,
    }
    policy, drawn, model = made[name](32), random.Random(seed), set[int]()  # noqa: S311
    uses = [Use(keys, number % 3, *plan(number)) for number, keys in enumerate(PROMPTS)]
    for number, keys in enumerate(PROMPTS):
        coming = uses[number : number + 4]
        if number % 4 == 0:
            for one in coming:
                policy.queue(one, float(number))
        if number % 9 == 5:
            policy.cancel(uses[number], float(number))
        policy.use(uses[number], float(number))
        for key in keys:
            policy.hold(key)
            model.discard(key)
        for key in drawn.sample(keys, drawn.randint(0, len(keys))):
            policy.free(key, float(number))
            model.add(key)
        while len(model) > 32 or (model and drawn.random() < 0.1):
            key = policy.evict(float(number))
            assert key in model
            model.remove(key)
        assert len(policy) == len(model)
        assert all((key in policy) == (key in model) for key in keys)
    assert {policy.evict(1e6) for _ in range(len(model))} == model
    with pytest.raises(KeyError):
        policy.evict(1e6)


def tell(
    policy: EvictionPolicy[int], prompt: Use[int], waiting: list[Use[int]], drawn: random.Random, now: float
) -> None:
    """Call a random method of a policy that callers can use at any time."""
    match drawn.randrange(4):
        case 0:
            waiting.append(prompt)
            policy.queue(prompt, now)
        case 1 if waiting:
            policy.cancel(waiting.pop(drawn.randrange(len(waiting))), now)
        case 2 if isinstance(policy, PlannedPolicy):
            policy.end(prompt.query)
        case _:
            policy.use(drawn.choice([prompt, *waiting]), now)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", [*POLICIES])
def test_only_free_and_hold_say_what_may_go(name: str, seed: int) -> None:
    """Only `free` and `hold` decide which blocks can be evicted, whatever is told about prompts and queries."""
    policy, drawn, model, waiting = POLICIES[name](32), random.Random(seed), set[int](), list[Use[int]]()  # noqa: S311
    for now in map(float, range(3_000)):
        number = drawn.randrange(len(PROMPTS))
        prompt = Use(PROMPTS[number], number % 3, *plan(number))
        tell(policy, prompt, waiting, drawn, now)
        keys = drawn.sample(prompt.keys, drawn.randint(0, len(prompt.keys)))
        if drawn.random() < 0.3:
            for key in keys:
                policy.hold(key)
            model -= set(keys)
        elif drawn.random() < 0.5:
            for key in keys:
                policy.free(key, now)
            model |= set(keys)
        if model and drawn.random() < 0.3:
            model.remove(policy.evict(now))
        assert len(policy) == len(model)
        assert all((key in policy) == (key in model) for key in prompt.keys)
    for prompt in waiting:
        policy.cancel(prompt, 3_000.0)
    assert {policy.evict(1e6) for _ in range(len(model))} == model


def found(policy: EvictionPolicy[int], blocks: int, prompts: Iterable[Use[int]]) -> float:
    """Run prompts one after the other through a cache of `blocks`; return the share of their blocks found there."""
    cached, hits, asked = set[int](), 0, 0
    for number, prompt in enumerate(prompts):
        hits += next((place for place, key in enumerate(prompt.keys) if key not in cached), len(prompt.keys))
        asked += len(prompt.keys)
        policy.use(prompt, 0.05 * number)
        for key in prompt.keys:
            policy.hold(key)
            cached.add(key)
        for key in reversed(prompt.keys):
            policy.free(key, 0.05 * number)
        while len(cached) > blocks:
            cached.remove(policy.evict(0.05 * number))
    return hits / asked


def same_documents() -> Iterator[Use[int]]:
    """Yield the prompts of ten queries that ask different questions about the same documents, and other prompts."""
    fresh = count(10_000)
    for query in range(10):
        for document in range(60):
            keys = [*range(10 * document, 10 * document + 10), next(fresh)]
            yield Use(keys, f"site {query}", 0, f"query {query}", document)
            yield Use([next(fresh) for _ in range(4)], "others")


def test_what_comes_back_though_it_was_done_with() -> None:
    """If queries use blocks that other queries were done with, the policy learns to keep such blocks."""
    planned = found(PlannedPolicy[int](1_200), 1_200, same_documents())
    assert planned > 0.9 * found(WorkloadAware[int](1_200), 1_200, same_documents())
    assert planned > 0.5


def test_a_long_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that always come back get a high likelihood, other blocks a low one, even after counts are halved.

    Every probability stays between 0 and 1.
    """
    monkeypatch.setattr(workload_aware, "_COUNTED_USES", 256)
    policy, fresh = WorkloadAware[int](2_000), count(10_000)
    for number in range(8_000):
        start = 8 * (number % 100)
        policy.use(Use(range(start, start + 8), "always"), 0.1 * number)
        policy.use(Use([next(fresh) for _ in range(4)], "never"), 0.1 * number)
        assert all(0 <= one.statistics.probability < 1 for one in policy._table.classes.values())
    always = policy._last_uses[0].block_class.statistics
    assert always.probability > 0.9
    assert always.likelihood(8.0) > 0.5
    never = policy._last_uses[next(fresh) - 1].block_class.statistics
    assert never.likelihood(8.0) < 0.01


def test_many_sites(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit of classes new call sites share classes: few ranks are compared, and no block is lost."""
    monkeypatch.setattr(workload_aware, "_MOST_CLASSES", 32)
    policy = WorkloadAware[int](4_000)
    for number in range(1_000):
        take(policy, Use([2 * number, 2 * number + 1], f"site {number}"), now=float(number))
    assert len(policy._queue.ranks) < 50
    assert {policy.evict(1e6) for _ in range(2_000)} == set(range(2_000))


def test_a_query_whose_prompts_have_all_ended() -> None:
    """Once no prompt of a query waits, its blocks count as unplanned, and the policy forgets the query."""
    policy, waiting = PlannedPolicy[int](100), [use("abc", 0, 2), use("abd", 1, 2), use("abe", 2, None)]
    for prompt in waiting:
        policy.queue(prompt, 0.0)
    for prompt in waiting:
        policy.cancel(prompt, 1.0)
        take(policy, prompt, now=1.0)
    assert len(policy) == len(policy._others) == 5
    assert not policy._heard
    assert not policy._left


def test_the_word_of_a_query_that_is_over() -> None:
    """A query that is over no longer protects blocks that another query is done with."""
    policy = PlannedPolicy[int](100)
    take(policy, use("ab", 0, 2, "one"))
    policy.end("one")
    take(policy, use("ab", 0, 0, "two"), use("xy", 1, 2, "two"))
    assert gone(policy, 4, 1.0) == "bayx"
    assert not any(plan.query == "one" for plan in policy._plans.values())
