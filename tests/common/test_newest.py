"""A dictionary that keeps its newest entries."""

from hypothesis import given
from hypothesis import strategies as st

from flightllm.common.newest import Newest


@given(st.lists(st.integers(0, 9)), st.integers(1, 6))
def test_newest(keys: list[int], most: int) -> None:
    """The dictionary holds the keys that were set last, in their order, each with its last value."""
    found = Newest[int, int](most)
    for value, key in enumerate(keys):
        found[key] = value
    last = {key: value for value, key in enumerate(keys)}
    expected = sorted(last.items(), key=lambda entry: entry[1])[-most:]
    assert list(found.items()) == expected


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9))), st.integers(1, 6))
def test_use(steps: list[tuple[bool, int]], most: int) -> None:
    """An entry that is used becomes the newest one, so the dictionary drops the least recently used entry."""
    found = Newest[int, int](most)
    expected: list[int] = []
    for is_read, key in steps:
        if is_read:
            assert found.use(key) == (key if key in expected else None)
        else:
            found[key] = key
        if not is_read or key in expected:
            expected = [*(other for other in expected if other != key), key][-most:]
        assert list(found) == expected


def test_reading_leaves_the_order() -> None:
    """Reads other than `use` make no entry newer."""
    found = Newest[str, int](2)
    found["a"] = 1
    found["b"] = 2
    assert ("a" in found, found.get("a"), found["a"]) == (True, 1, 1)
    found["c"] = 3
    assert list(found) == ["b", "c"]


def test_use_of_an_entry_that_goes_meanwhile() -> None:
    """An entry that another thread removes during `use` counts as unknown."""

    class Emptied(Newest[str, int]):
        def move_to_end(self, key: str, last: bool = True) -> None:
            super().move_to_end(key, last)
            self.clear()

    found = Emptied(2)
    found["a"] = 1
    assert found.use("a") is None


def test_setdefault() -> None:
    """A default counts as set only if the key was missing."""
    found = Newest[str, int](2)
    found["a"] = 1
    found["b"] = 2
    assert found.setdefault("a", 3) == 1
    assert found.setdefault("c", 4) == 4
    assert dict(found) == {"b": 2, "c": 4}
