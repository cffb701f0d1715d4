"""How much of a prompt's start the prompts around it have too."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightllm.operators.prefix_overlap import PrefixOverlap, shared_start
from tests.databases import ask, small_database
from tests.using_engines import Scripted, using


@pytest.mark.parametrize(
    ("left", "right", "shared"),
    [("", "", 0), ("a", "", 0), ("abc", "abc", 3), ("abc", "abd", 2), ("xbc", "abc", 0), ("ab", "abcd", 2)],
)
def test_shared_start(left: str, right: str, shared: int) -> None:
    """Texts are compared character by character, in either order."""
    assert shared_start(left, right) == shared_start(right, left) == shared


@given(st.text("ab", max_size=40), st.text("ab", max_size=40), st.integers(0, 50))
def test_any_guess_gives_the_same(left: str, right: str, guess: int) -> None:
    """A guess that is right, too low, too high or beyond the texts changes nothing."""
    start = left[:20]
    equal = [one == other for one, other in zip(start + left, start + right, strict=False)]
    assert shared_start(start + left, start + right, guess) == [*equal, False].index(False)


def test_before_and_after() -> None:
    """The longer of both starts recurs, that with the next prompt is ahead; one held back counts as itself."""
    neighbours = PrefixOverlap()
    assert neighbours.shared("story one", "story two") == (6, 6)
    assert neighbours.shared("story two", "strange") == (6, 2)
    assert neighbours.shared("story two", "strange") == (6, 2)
    assert neighbours.shared("strange", "strangers") == (7, 7)
    assert neighbours.shared("strangers", None) == (7, None)
    assert neighbours.shared("other", None) == (0, None)


def test_another_comes_first() -> None:
    """Prompts that go first after all are compared with what was asked before them, not with what was expected."""
    neighbours = PrefixOverlap()
    assert neighbours.shared("story one", "story two") == (6, 6)
    assert neighbours.shared("strange", "story two") == (2, 2)
    assert neighbours.shared("story two", None) == (2, None)
    assert neighbours.shared("story two", "story three") == (7, 7)


def test_prompts_of_a_query(tmp_path: Path) -> None:
    """Every prompt that a query sends says how much of it recurs: what it has with the one before or after it."""
    engine = Scripted(lambda _: "a note")
    database = using(small_database(tmp_path / "data", {}), engine)
    ask(database.session(), "SELECT ai_gen('Tell what this note is about.', note) FROM people")
    prompts = [request.prompt for request in engine.asked]
    assert len(prompts) == 4
    with_next = [shared_start(one, other) for one, other in pairwise(prompts)]
    assert [request.recurs for request in engine.asked] == list(map(max, [0, *with_next], [*with_next, 0]))
    assert min(with_next) > len("Tell what this note is about.")
