"""Keys that something is known of, for a while."""

from flightllm.kvcache.recent import RecentKeys


def test_for_a_while() -> None:
    """A key is there for so long after it was last added."""
    now = 0.0
    keys = RecentKeys(10.0, clock=lambda: now)
    keys.add("a")
    now = 9.0
    assert "a" in keys
    keys.add("a")
    now = 18.0
    assert "a" in keys
    assert "b" not in keys
    now = 19.5
    assert "a" not in keys


def test_discard() -> None:
    """A key that is forgotten is not there; one that was not there may be forgotten, too."""
    keys = RecentKeys()
    keys.add("a")
    keys.discard("a")
    keys.discard("b")
    assert "a" not in keys


def test_so_many() -> None:
    """The keys added the longest ago go first."""
    keys = RecentKeys(most=2)
    for key in ("a", "b", "a", "c"):
        keys.add(key)
    assert [key in keys for key in "abc"] == [True, False, True]
