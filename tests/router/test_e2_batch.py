"""E2 for batches: many prompts are partitioned ahead of time and stolen at the end; a few are routed as by E2."""

from itertools import pairwise

import pytest

from flightllm.errors import EngineUnavailableError
from flightllm.router.base import create_router
from flightllm.router.e2_batch import FEW, E2Batch
from flightllm.router.fleet import Fleet
from flightllm.router.least_loaded import LeastLoaded
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.replica_queue import Lane, ReplicaQueue
from tests.routing import BLOCK, assign, fleet, prompt


def films(count: int, reviews: int, priority: int = 0, first: int = 0) -> list[RoutedPrompt]:
    """Return prompts about films, with keys from `first` on."""
    texts = [[0] * BLOCK + [film + 1] * (8 * BLOCK) + [r] * BLOCK for film in range(count) for r in range(reviews)]
    plain = [prompt(first + key, text) for key, text in enumerate(texts)]
    return [RoutedPrompt(one.key, one.tokens, one.answer_tokens, priority=priority) for one in plain]


def queues(made: Fleet, prompts: list[RoutedPrompt]) -> dict[int, Lane]:
    """Queue prompts as the engine does."""
    found = {replica: ReplicaQueue(made.held_share).open() for replica in made.up}
    for replica, run in made.runs(prompts).items():
        found[replica].push(run)
    return found


def drained(queue: Lane) -> list[int]:
    """Return the keys of the prompts of a queue as they are drawn."""
    keys = []
    while (one := queue.pop()) is not None:
        keys.append(one.key)
    return keys


def test_films_meet_on_one_replica_in_their_order() -> None:
    """However mixed prompts come, each film is on one replica, and the queue keeps its reviews together."""
    made = fleet(2)
    prompts = films(8, 6)
    mixed = prompts[::2] + prompts[1::2]
    chosen = create_router("e2_batch", made).route(mixed, 0.0)
    assert chosen == [made.open[one.key].replica for one in mixed]
    for queue in queues(made, mixed).values():
        about = [key // 6 for key in drained(queue)]
        assert len(about) == 24
        assert sum(left != right for left, right in pairwise(about)) == 3


def test_a_few_are_routed_one_by_one() -> None:
    """Up to some for each replica the other policy chooses."""
    made = fleet(2)
    few = LeastLoaded(made)
    assert E2Batch(made, few).route(films(1, 2 * FEW), 0.0) == [0, 1] * FEW


def test_urgent_prompts_are_spread_by_themselves() -> None:
    """Each replica gets half of the urgent prompts, whatever else comes with them."""
    made = fleet(2)
    prompts = films(8, 6) + films(4, 5, priority=-1, first=100)
    create_router("e2_batch", made).route(prompts, 0.0)
    urgent = [made.open[one.key].replica for one in prompts if one.priority < 0]
    assert urgent.count(0) == urgent.count(1) == 10
    firsts = [drained(queue)[:10] for queue in queues(made, prompts).values()]
    assert all(key >= 100 for keys in firsts for key in keys)


def test_urgent_prompts_do_not_mind_bulk_ones() -> None:
    """However unevenly bulk prompts lie, each replica gets half of the urgent ones, and one without any takes half."""
    made = fleet(2)
    router = create_router("e2_batch", made)
    for one in films(20, 6, first=1_000):
        assign(made, one, int(one.key > 1_030))
    urgent = films(8, 6, priority=-1)
    assert sorted(router.route(urgent, 0.0)) == [0] * 24 + [1] * 24
    waiting = queues(made, urgent)
    for key in drained(waiting[1]):
        made.finished(key)
    assert 9 <= len(router.steal(1, waiting, 1.0)) <= 15


def test_who_runs_dry_gets_the_end_of_the_longest_queue() -> None:
    """A replica that comes back finds work: whole films from the end, which leave the queue."""
    made = fleet(2)
    router = create_router("e2_batch", made)
    made.lose(1)
    prompts = films(8, 6)
    router.route(prompts, 0.0)
    waiting = queues(made, prompts)
    made.bring_back(1)
    waiting[1] = ReplicaQueue(made.held_share).open()
    stolen = [one.key for one in router.steal(1, waiting, 1.0)]
    assert stolen == list(range(24, 48))
    assert drained(waiting[0]) == list(range(24))
    assert made.requests.tolist() == [24, 24]
    assert not router.steal(1, waiting, 1.0)


def test_urgent_prompts_are_stolen_first() -> None:
    """Of a queue with both, the urgent ones are moved."""
    made = fleet(2)
    router = create_router("e2_batch", made)
    made.lose(1)
    prompts = films(8, 6) + films(8, 6, priority=-1, first=100)
    router.route(prompts, 0.0)
    waiting = queues(made, prompts)
    made.bring_back(1)
    assert all(one.priority == -1 for one in router.steal(1, waiting, 1.0))


def test_nothing_is_stolen_for_a_replica_with_work() -> None:
    """While it has as much to answer as others have waiting, what waits stays where its prefix is."""
    made = fleet(2)
    router = create_router("e2_batch", made)
    prompts = films(8, 6)
    router.route(prompts, 0.0)
    waiting = queues(made, prompts)
    assert not router.steal(1, {0: waiting[0]}, 1.0)
    made.lose(1)
    assert not router.steal(1, {0: waiting[0]}, 1.0)


def test_who_gives_is_half_through_with_what_it_answers() -> None:
    """Where the rest that a replica has in answers and in its queue is more than the idle one's, some is moved."""
    counts = {}
    for answering in (0, 12):
        made = fleet(2)
        router = create_router("e2_batch", made)
        for one in films(4, 6, first=1_000)[: 2 * answering]:
            assign(made, one, int(one.key >= 1_000 + answering))
        prompts = films(1, 24, first=100)
        for one in prompts:
            assign(made, one, 0)
        counts[answering] = len(router.steal(1, queues(made, prompts), 1.0))
    assert counts == {0: 12, 12: 9}


def test_a_replica_that_leaves_gives() -> None:
    """What waits at a replica that gets no more prompts is taken over; what a lost one leaves is not."""
    made = fleet(2)
    router = create_router("e2_batch", made)
    prompts = films(8, 6)
    for one in prompts:
        assign(made, one, 0)
    waiting = queues(made, prompts)
    made.retire(0)
    assert len(router.steal(1, waiting, 1.0)) == 24
    made.lose(0)
    assert not router.steal(1, waiting, 2.0)


def test_nobody_is_there() -> None:
    """Without a replica that is up nothing can be routed."""
    with pytest.raises(EngineUnavailableError):
        create_router("e2_batch", fleet(0)).route(films(8, 6), 0.0)
