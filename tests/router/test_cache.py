"""What a replica is thought to hold: the least recently used goes first, ends before beginnings, nothing under way."""

from hypothesis import given
from hypothesis import strategies as st

from flightllm.router.fleet import Fleet
from tests.routing import assign, fleet, prompt

A, B, C = (list(range(start, start + 8)) for start in (0, 100, 200))


def held(made: Fleet, replica: int = 0) -> int:
    """Return how many blocks the tree says are held."""
    return sum(node.held.get(replica, 0).bit_count() for node in made.tree.walk())


def ask(made: Fleet, key: int, tokens: list[int], now: float = 0.0) -> int:
    """Give the first replica a prompt, let it answer, and return how many of its tokens it held."""
    assign(made, prompt(key, tokens), 0, now)
    return made.finished(key).cached_tokens


def test_least_recently_used_goes() -> None:
    """Of three prompts two fit; the one not asked for again is gone."""
    made = fleet(1, 4)
    assert [ask(made, key, tokens) for key, tokens in enumerate((A, B, A, C, A, B))] == [0, 0, 4, 0, 4, 0]


def test_ends_go_before_beginnings() -> None:
    """Of a prompt the last edge goes first, so that the others are still of use."""
    made = fleet(1, 4)
    ask(made, 0, [*A, 1, 1, 1, 1])
    ask(made, 1, [*A, 2, 2, 2, 2])
    ask(made, 2, [9, 9, 9, 9, 9])
    assert ask(made, 3, [*A, 2, 2, 2, 2, 5]) >= 8


def test_victims_are_what_goes() -> None:
    """What is foreseen to go to make room is what then goes."""
    made = fleet(1, 4)
    ask(made, 0, A)
    ask(made, 1, B)
    foreseen = list(made.caches[0].victims(2))
    assert [node.tokens for node in foreseen] == [prompt(0, A).tokens]
    assert list(made.caches[0].victims(0)) == []
    ask(made, 2, C)
    assert [0 in node.held for node in foreseen] == [False]


def test_prompts_under_way_stay() -> None:
    """What is being answered needs no room yet and is no victim; once answered, what is too much goes."""
    made = fleet(1, 2)
    for key, tokens in enumerate((A, B)):
        assign(made, prompt(key, tokens), 0)
    assert made.caches[0].used == 0
    made.finished(0)
    assert made.caches[0].used == 2
    assign(made, prompt(2, A), 0)
    assert list(made.caches[0].victims(2)) == []
    made.finished(1)
    assert made.caches[0].used == 2
    assert made.finished(2).cached_tokens == 4
    ask(made, 3, C)
    assert made.caches[0].used == 2


def test_what_was_never_computed_is_not_held() -> None:
    """A prompt that is taken away leaves nothing behind."""
    made = fleet(1, 4)
    assign(made, prompt(0, A), 0)
    made.withdrawn(0)
    made.withdrawn(0)  # it is gone already
    assert made.caches[0].used == 0
    assert ask(made, 1, A) == 0


def test_exact_caches_hold_what_they_are_told() -> None:
    """Prompts change nothing where the engine tells what it holds; it is told, taken back, and cleared."""
    made = Fleet(4)
    made.add(10, exact=True)
    cache = made.caches[0]
    assign(made, prompt(0, A), 0)
    leaf = made.insert(prompt(0, A))
    assert cache.used == 0
    cache.hold(leaf, 0b11)
    cache.hold(leaf, 0b1)
    assert cache.used == 2
    made.finished(0)
    cache.drop(leaf, 0b10)
    assert (cache.used, leaf.held) == (1, {0: 1})
    cache.clear()
    assert (cache.used, held(made)) == (0, 0)


def test_exact_caches_forget_the_order_of_what_is_gone() -> None:
    """Prompts that the engine dropped leave nothing behind, however many there were."""
    made = Fleet(4)
    made.add(10, exact=True)
    cache = made.caches[0]
    for key in range(100):
        one = prompt(key, [key] * 4)
        assign(made, one, 0)
        leaf = made.insert(one)
        cache.hold(leaf, 1)
        made.finished(key)
        cache.drop(leaf, 1)
    assert len(cache._order) < 5


@given(st.lists(st.tuples(st.lists(st.integers(0, 1), min_size=4, max_size=24), st.booleans()), max_size=30))
def test_used_is_what_the_tree_says(asked: list[tuple[list[int], bool]]) -> None:
    """However prompts come and go, blocks are counted right, and never more than fit once nothing is under way."""
    made = fleet(1, 3)
    for key, (tokens, ends) in enumerate(asked):
        assign(made, prompt(key, tokens), 0, float(key))
        if ends:
            made.finished(key)
        assert made.caches[0].used == held(made)
    for key in list(made.open):
        made.finished(key)
    ask(made, -1, [7, 7, 7, 7], 1e6)
    assert made.caches[0].used == held(made) <= 3
