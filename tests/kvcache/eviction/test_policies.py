"""What each eviction policy lets go first, and that none loses a block."""

import random
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import count

import pytest

from flightllm.errors import ConfigError
from flightllm.kvcache.eviction import POLICIES, create_policy, workload_aware
from flightllm.kvcache.eviction.base import Policy, Use
from flightllm.kvcache.eviction.belady import Belady
from flightllm.kvcache.eviction.fifo import Fifo
from flightllm.kvcache.eviction.gdsf import Gdsf
from flightllm.kvcache.eviction.lru import Lru
from flightllm.kvcache.eviction.planned import Planned
from flightllm.kvcache.eviction.two_queues import TwoQueues
from flightllm.kvcache.eviction.workload_aware import WorkloadAware

PROMPTS = [[number // 3, *range(100 * number, 100 * number + number % 7)] for number in range(400)]
"""Blocks of prompts, the first one shared by three of them."""


def run(policy: Policy[int], *prompts: str, seconds: float = 1.0, kind: str = "", since: float = 0.0) -> float:
    """Have prompts, whose blocks are characters, come one after the other; return when the last one ended."""
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


def gone(policy: Policy[int], count: int, now: float = 1e6) -> str:
    """Return the blocks that go next."""
    return "".join(chr(policy.evict(now)) for _ in range(count))


def test_lru() -> None:
    """What was used least recently goes first, of a prompt its end."""
    policy = Lru[int]()
    run(policy, "abc", "xy", "ab")
    assert gone(policy, 5) == "cyxba"


def test_fifo() -> None:
    """What was computed first goes first though it was used since; what went is new when it comes back."""
    policy = Fifo[int](100)
    run(policy, "abc", "xy", "ab")
    assert gone(policy, 2) == "cb"
    run(policy, "ab")
    assert gone(policy, 4) == "ayxb"


def test_gdsf() -> None:
    """What was used often stays, until what is used since has as much."""
    policy = Gdsf[int](100)
    run(policy, "ab", "ab", "ab", "xy")
    assert gone(policy, 2) == "yx"
    run(policy, "pq")
    assert gone(policy, 2) == "qp"
    run(policy, "uv", "uv")
    assert gone(policy, 4) == "bavu"


def test_two_queues() -> None:
    """A scan does not push out what came back after it had gone once."""
    policy = TwoQueues[int](8)
    run(policy, "ab", "cdefgh")
    assert gone(policy, 2) == "ba"
    run(policy, "ab")
    run(policy, "ijklmn")
    assert "a" not in gone(policy, 10)
    assert gone(policy, 2) == "ba"


def test_belady() -> None:
    """What is used last, or never, goes first."""
    prompts = ["ab", "cd", "c", "a", "b"]
    policy = Belady([[ord(character) for character in prompt] for prompt in prompts])
    run(policy, *prompts[:2])
    assert gone(policy, 4) == "dbac"


def test_classes_that_come_back_stay() -> None:
    """Of two kinds of prompts the one whose blocks are used again is kept, though it was used less recently."""
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
    statistics = workload_aware._ReuseStatistics(uses=2.0, next_fit=4.0)
    statistics.count_use()
    statistics.count_reuse(4.0)
    assert (statistics.probability, statistics.rate) == ((1 + 0.5) / (3 + 1), 1 / (4.0 * 0.25))


def asked_twice() -> WorkloadAware[int]:
    """Return a policy that knows prompts of two kinds, which come a second time soon or late, and a new one of each."""
    policy = WorkloadAware[int](1_000)
    for number in range(40):
        kind, seconds = ("soon", 1.0) if number % 2 else ("late", 60.0)
        pair = chr(1_000 + 2 * number) + chr(1_001 + 2 * number)
        run(policy, pair, pair, kind=kind, seconds=seconds, since=200.0 * number)
    run(policy, "xy", kind="late", since=8_000.0)
    run(policy, "pq", kind="soon", since=8_010.0)
    return policy


def test_what_was_expected_and_did_not_come_goes() -> None:
    """What is likely to be used soon stays longest; when it was not, it goes before what has still time."""
    assert gone(asked_twice(), 84, 8_010.1)[-4:] == "yxqp"
    assert gone(asked_twice(), 84, 8_040.0)[-4:] == "qpyx"


def test_new_call_sites_are_like_others() -> None:
    """A new call site's blocks stay for a while where those of other call sites are used again soon."""
    policy, now = WorkloadAware[int](1_000), 0.0
    for number in range(40):
        now = run(policy, *[chr(1_000 + 2 * number) + chr(1_001 + 2 * number)] * 2, kind="old", since=now)
    now = run(policy, "xy", kind="old", since=now)
    run(policy, "pq", kind="new", since=now)
    assert gone(policy, 84, now + 0.5)[-4:] == "yxqp"


def use(keys: str, number: int, ahead: int | None, query: str = "q") -> Use[int]:
    """Return the use of blocks that are characters by a query's prompt."""
    return Use([ord(character) for character in keys], query, ahead, query, number)


def take(policy: Policy[int], *prompts: Use[int], now: float = 0.0) -> None:
    """Have prompts come, and end."""
    for prompt in prompts:
        policy.use(prompt, now)
        for key in reversed(prompt.keys):
            policy.free(key, now)


def test_planned_bands() -> None:
    """What a query is done with goes first, then what nobody knows of, then what its later prompts have."""
    policy = Planned[int](100)
    take(policy, use("abcd", 0, 2), Use([ord("x"), ord("y")]))
    assert gone(policy, 6, 1.0) == "dcyxba"


def test_what_waits_stays() -> None:
    """What waiting prompts need goes last, of it what is needed last; one that is cancelled needs nothing."""
    policy, first, second = Planned[int](100), use("ab", 1, 0), use("ac", 2, 0)
    take(policy, use("abcd", 0, 3))
    policy.queue(first, 0.0)
    policy.queue(second, 0.0)
    policy.queue(third := use("d", 3, 0), 0.0)
    assert gone(policy, 2, 1.0) == "dc"
    policy.cancel(third, 1.0)
    assert gone(policy, 2, 1.0) == "ba"


def test_what_begins_first_stays() -> None:
    """Of what waiting prompts need that stays longest whose prompt has the lowest priority, and then came first."""
    policy = Planned[int](100)
    waiting = [Use([ord(key)], priority=priority) for key, priority in [("a", 0), ("b", -1), ("c", 0), ("d", -1)]]
    for use in waiting:
        policy.free(use.keys[0], 0.0)
        policy.queue(use, 0.0)
    assert gone(policy, 2, 1.0) == "ca"
    policy.queue(Use([ord("d")], priority=-2), 1.0)
    assert gone(policy, 2, 1.0) == "bd"


def test_out_of_order() -> None:
    """Of what two prompts of a query say the later one's word counts, whichever ends first."""
    policy = Planned[int](100)
    take(policy, use("ab", 5, 0), use("ab", 4, 2), use("xy", 6, 2))
    assert gone(policy, 4, 1.0) == "bayx"


def test_used_by_others() -> None:
    """What a query is done with is judged by its class once a prompt without a plan has used it."""
    policy = Planned[int](100)
    take(policy, use("ab", 0, 0), use("xy", 1, 0), Use([ord("a")]))
    assert gone(policy, 4, 1.0) == "byxa"


def test_queries_that_end() -> None:
    """What a query awaited counts as others' blocks once it is over, or stands still; its tails go first even then."""
    policy = Planned[int](100)
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
    """What a query awaits stays as long as prompts of it come to wait."""
    policy = Planned[int](100)
    take(policy, use("ab", 0, 2), Use([ord("x")], "more"))
    policy.queue(use("y", 1, 0), 20.0)
    assert gone(policy, 3, 45.0) == "xba"


def test_a_prompt_waits_until_cancelled() -> None:
    """A prompt that is told of once more with its answer's blocks does not change what waits; `cancel` does."""
    policy, waiting = Planned[int](100), use("ab", 0, 0)
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
    """Blocks that no prompt was told to use come free, are held and go like any others."""
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
    """Of blocks whose content is lost without going, and of queries and call sites, not more and more is kept."""
    policy, sizes = POLICIES[name](4), list[int]()
    for number in range(4_000):
        policy.use(Use([2 * number, 2 * number + 1], number, 1, number), float(number))
        policy.free(2 * number, float(number))
        policy.hold(2 * number)
        sizes.append(entries(policy))
    assert max(sizes[2_000:]) <= max(sizes[:2_000])


def counts(policy: WorkloadAware[int]) -> list[tuple[float, float]]:
    """Return the uses and reuses of each class, in the order in which the classes were last needed."""
    statistics = [block_class.statistics for block_class in policy._table.classes.values()]
    return [(one.uses, one.reuses) for one in statistics]


def test_learning_ends() -> None:
    """A policy that no longer learns keeps its counts."""
    policy = WorkloadAware[int](100)
    run(policy, *["ab", "xy"] * 40, kind="one")
    policy.learning = False
    before = counts(policy)
    run(policy, *["ab", "pq"] * 40, kind="one", since=100.0)
    assert counts(policy)[: len(before)] == before


def test_unknown_policy() -> None:
    """A name of none says which there are."""
    with pytest.raises(ConfigError, match="lru, fifo, 2q, gdsf, workload_aware, planned"):
        create_policy("mru", 10)


def plan(number: int) -> tuple[int | None, int, int]:
    """Return how many blocks later prompts have, the query and the number of a prompt; nothing of every fifth."""
    return (None if number % 5 == 0 else number % 4), number // 50, number


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", [*POLICIES, "belady"])
def test_no_block_is_lost(name: str, seed: int) -> None:
    """Whatever comes free, is held and goes, in any order: exactly those that may go go, each once."""
    made: dict[str, Callable[[int], Policy[int]]] = {**POLICIES, "belady": lambda _: Belady(PROMPTS)}
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


def tell(policy: Policy[int], prompt: Use[int], waiting: list[Use[int]], drawn: random.Random, now: float) -> None:
    """Tell a policy anything of prompts that may be told at any time."""
    match drawn.randrange(4):
        case 0:
            waiting.append(prompt)
            policy.queue(prompt, now)
        case 1 if waiting:
            policy.cancel(waiting.pop(drawn.randrange(len(waiting))), now)
        case 2 if isinstance(policy, Planned):
            policy.end(prompt.query)
        case _:
            policy.use(drawn.choice([prompt, *waiting]), now)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", [*POLICIES])
def test_only_free_and_hold_say_what_may_go(name: str, seed: int) -> None:
    """Prompts wait, are cancelled, are told of and end queries in any order, with blocks in use, free or unknown."""
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


def found(policy: Policy[int], blocks: int, prompts: Iterable[Use[int]]) -> float:
    """Return the share of blocks that prompts, which come one after the other, find in a cache of so many blocks."""
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
    """Yield ten queries' prompts, each query with another question about the same documents, beside ones of nobody."""
    fresh = count(10_000)
    for query in range(10):
        for document in range(60):
            keys = [*range(10 * document, 10 * document + 10), next(fresh)]
            yield Use(keys, f"site {query}", 0, f"query {query}", document)
            yield Use([next(fresh) for _ in range(4)], "others")


def test_what_comes_back_though_it_was_done_with() -> None:
    """What queries are done with, and others ask for again, is kept once that was seen, as without any plan."""
    planned = found(Planned[int](1_200), 1_200, same_documents())
    assert planned > 0.9 * found(WorkloadAware[int](1_200), 1_200, same_documents())
    assert planned > 0.5


def test_a_long_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that always come back, after more uses than are counted in full, are worth more than those that never do.

    No class is likelier to come back than certain, nor less than never.
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
    """Beyond so many classes with blocks that may go further sites count as one: none is lost, and few are compared."""
    monkeypatch.setattr(workload_aware, "_MOST_CLASSES", 32)
    policy = WorkloadAware[int](4_000)
    for number in range(1_000):
        take(policy, Use([2 * number, 2 * number + 1], f"site {number}"), now=float(number))
    assert len(policy._queue.ranks) < 50
    assert {policy.evict(1e6) for _ in range(2_000)} == set(range(2_000))


def test_a_query_whose_prompts_have_all_ended() -> None:
    """Once none of its prompts waits any more what a query awaited counts as others' blocks; nothing is left of it."""
    policy, waiting = Planned[int](100), [use("abc", 0, 2), use("abd", 1, 2), use("abe", 2, None)]
    for prompt in waiting:
        policy.queue(prompt, 0.0)
    for prompt in waiting:
        policy.cancel(prompt, 1.0)
        take(policy, prompt, now=1.0)
    assert len(policy) == len(policy._others) == 5
    assert not policy._heard
    assert not policy._left


def test_the_word_of_a_query_that_is_over() -> None:
    """What it awaited another query may be done with."""
    policy = Planned[int](100)
    take(policy, use("ab", 0, 2, "one"))
    policy.end("one")
    take(policy, use("ab", 0, 0, "two"), use("xy", 1, 2, "two"))
    assert gone(policy, 4, 1.0) == "bayx"
    assert not any(plan.query == "one" for plan in policy._plans.values())
