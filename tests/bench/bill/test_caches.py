"""Automatic caches: steps, floors, lives and keys."""

import pytest

from bench.bill.caches import Automatic, Split
from bench.bill.prompt import Prompt


def prompt(tokens: int, start: int = 0, key: str = "") -> Prompt:
    """Return a prompt of different tokens."""
    return Prompt(tuple(range(start, start + tokens)), (), key)


@pytest.mark.parametrize(("tokens", "read"), [(1_023, 0), (1_024, 0), (1_025, 1_024), (1_151, 1_024), (1_153, 1_152)])
def test_whole_steps_from_the_floor(tokens: int, read: int) -> None:
    """An equal prompt reads whole steps of itself, but never its last token."""
    cache = Automatic(1_024, 128, 300)
    assert cache.arrive(prompt(tokens), 0) == Split()
    cache.begin(prompt(tokens), 0)
    assert cache.arrive(prompt(tokens), 1) == Split(read)


def test_a_common_start_is_read() -> None:
    """A prompt reads what it shares with an earlier one; a prompt that begins otherwise reads nothing."""
    cache = Automatic(64, 64, 300)
    cache.begin(prompt(500), 0)
    other = Prompt((*range(200), *range(9_000, 9_100)), ())
    assert cache.arrive(other, 1) == Split(192)
    assert cache.arrive(prompt(500, start=1), 1) == Split()


def test_a_use_begins_the_life_anew() -> None:
    """A start ends when no prompt has used it for `seconds`."""
    cache = Automatic(64, 64, 300)
    cache.begin(prompt(100), 0)
    assert cache.arrive(prompt(100), 299).read == 64
    assert cache.arrive(prompt(100), 598).read == 64
    assert cache.arrive(prompt(100), 899).read == 0


def test_keys_keep_prompts_apart() -> None:
    """A prompt reads what has its own key; where a key is needed, a prompt without one reads nothing."""
    cache = Automatic(64, 64, 300, needs_key=True)
    cache.begin(prompt(100), 0)
    cache.begin(prompt(100, key="a"), 0)
    assert [cache.arrive(prompt(100, key=key), 1).read for key in ("", "a", "b")] == [0, 64, 0]
