"""What simulated caches are asked for."""

from itertools import islice, pairwise

import pytest

from bench.eviction_replay import closed, compare
from bench.eviction_workloads import AT_ONCE, WARM_SECONDS, WINDOW, Event, Interactive, Prompt, What, bulk, query, run
from bench.prompt_streams import Stream
from bench.recording import Asked
from flightllm.kvcache.eviction.base import Use
from flightllm.router.tree import pack


def sorted_query(name: str, groups: int, each: int) -> list[Prompt]:
    """Return a query's prompts: an instruction, a subject that neighbours share, and a row."""
    keys = [[hash((name, *path)) for path in path_of(group, row)] for group in range(groups) for row in range(each)]
    aheads = [3 if one[2] == later[2] else 1 for one, later in pairwise(keys)]
    return [Prompt(Use(one, name, ahead, name, i)) for i, (one, ahead) in enumerate(zip(keys, aheads, strict=False))]


def path_of(group: int, row: int) -> list[tuple[int, ...]]:
    """Return what tells the blocks of a row's prompt from others: one, two and three of them."""
    return [(0,), (group, 0), (group, 1), (group, row, 0), (group, row, 1), (group, row, 2)]


def interactive() -> Interactive:
    """Return a little interactive traffic at times of the real trace, or skip where there is none."""
    try:
        next(iter((found := Interactive(sites=6))(1)))
    except FileNotFoundError:
        pytest.skip("needs a folder FLIGHTLLM_DATA with Azure's traces")
    return found


def test_blocks_of_prompts() -> None:
    """Whole blocks only; a prompt tells what the next one of its call site has too, in other queries' terms nothing."""
    texts = [[*range(16), *range(20)], [*range(16), *range(16, 48)], [1] * 16]
    stream = Stream("films", "q1", tuple(Asked(pack(one), 2, 2, call) for one, call in zip(texts, "aab", strict=True)))
    first, second, other = bulk(stream)
    assert [len(one.use.keys) for one in (first, second, other)] == [2, 3, 1]
    assert first.use.keys[0] == second.use.keys[0] != second.use.keys[1]
    assert [one.use.ahead for one in (first, second, other)] == [1, None, None]
    assert [one.use.number for one in (first, second, other)] == [0, 1, 0]
    assert first.use.query == second.use.query != other.use.query


def test_a_prompt_that_the_next_one_is_a_part_of() -> None:
    """No more is told to be needed than the next prompt has."""
    stream = Stream("films", "q1", tuple(Asked(pack(list(range(size))), 2, 2, "") for size in (48, 32)))
    assert [one.use.ahead for one in bulk(stream)] == [2, None]


def test_queries_take_turns() -> None:
    """A window of prompts waits, they begin in turns as there is room, and each waits, begins and ends once."""
    queries = [sorted_query("one", 20, 5), sorted_query("two", 60, 5)]
    events = list(run(queries, iter(()), 10_000))
    begun = [event.use for event in events if event.what is What.BEGINS]
    assert [use.query for use in begun[:6]] == ["one", "two"] * 3
    assert [use.number for use in begun if use.query == "two"] == list(range(len(queries[1])))
    for what in (What.WAITS, What.BEGINS, What.ENDS):
        assert len({id(event.use) for event in events if event.what is what}) == sum(map(len, queries))
    assert all(one.at <= later.at for one, later in pairwise(events))
    assert most(events, What.BEGINS, What.ENDS) == AT_ONCE
    assert most(events, What.WAITS, What.BEGINS) == 2 * WINDOW


def most(events: list[Event], more: What, less: What) -> int:
    """Return how many prompts at most one thing has happened to and the other not yet."""
    now = found = 0
    for event in events:
        now += (event.what is more) - (event.what is less)
        found = max(found, now)
    return found


def test_room() -> None:
    """No more prompts run than their blocks fit, those that they share counted once; one at least does."""
    queries = [sorted_query("one", 20, 5)]
    assert most(list(run(queries, iter(()), 9)), What.BEGINS, What.ENDS) == 2
    assert most(list(run(queries, iter(()), 1)), What.BEGINS, What.ENDS) == 1


def test_interactive_prompts() -> None:
    """They come in order, of a seed always the same, some again, and go before what queries ask."""
    drawn = interactive()
    prompts = list(islice(drawn(1), 600))
    assert all(one.at <= later.at for one, later in pairwise(prompts))
    assert prompts == list(islice(drawn(1), 600)) != list(islice(drawn(2), 600))
    whole = [tuple(one.use.keys) for one in prompts]
    assert 20 < len(whole) - len(set(whole)) < 300
    assert {one.use.ahead for one in prompts} == {None}
    events = list(run([sorted_query("one", 200, 5)], drawn(1), 10_000))
    assert all(event.use.query is None for event in events if event.at < WARM_SECONDS)
    late = [event for event in events if event.at > WARM_SECONDS]
    waits = {id(event.use): event.at for event in late if event.what is What.WAITS and event.use.query is None}
    begins = {id(event.use): event.at for event in late if event.what is What.BEGINS}
    assert 0 < max(begins[one] - at for one, at in waits.items() if one in begins) < 1.0


def test_planned_closes_most_of_the_gap() -> None:
    """Queries side by side, whose rows come once, among interactive prompts: what comes again stays."""
    queries = [sorted_query("one", 150, 6), sorted_query("two", 300, 3)]
    for seed in (4, 5):
        events = list(run(queries, interactive()(seed), 512))
        counted = sum(event.what is What.BEGINS and event.at < WARM_SECONDS for event in events)
        found = compare(events, 512, ["lru", "planned"], counted)
        assert closed(found, "planned") >= 0.6


def test_prompts_of_a_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner's prompts share their starts with neighbours."""
    monkeypatch.delenv("FLIGHTLLM_DATA", raising=False)
    prompts = query("movies q1", 60)
    assert 40 < len(prompts) <= 60
    assert all(1 <= (one.use.ahead or 0) <= len(one.use.keys) for one in prompts[:-1])
