"""Prefixes whose prompts wait longer and longer."""

from flightllm.router.hot_prefixes import HotPrefixes
from flightllm.router.tree import Node, PrefixTree, pack


def node(number: int) -> Node:
    """Return a node of its own."""
    return PrefixTree(1).insert(pack([number]))


def test_doubled_waits_are_told_once() -> None:
    """Prompts that wait twice what the prefix is worth say so, and then only when that has doubled again."""
    hot, prefix = HotPrefixes(100.0), node(0)
    told = [hot.waited(prefix, 2.0, 1.0, float(now)) for now in range(20)]
    assert told == [False] * 3 + [True] + [False] * 16
    assert any(hot.waited(prefix, 9.0, 1.0, 20.0 + now) for now in range(10))


def test_short_and_steady_waits_are_fine() -> None:
    """Waits that do not grow, or are shorter than what another copy costs, say nothing."""
    hot, short, steady = HotPrefixes(100.0), node(0), node(1)
    assert not any(hot.waited(short, 0.5, 1.0, float(now)) for now in range(50))
    told = [now for now in range(500) if hot.waited(steady, 5.0, 1.0, float(now))]
    assert len(told) == 1


def test_what_is_asked_no_more_is_forgotten() -> None:
    """Only prefixes of the last while are followed."""
    hot = HotPrefixes(10.0)
    for number in range(100):
        hot.waited(node(number), 1.0, 1.0, float(number))
    assert len(hot) <= 11
