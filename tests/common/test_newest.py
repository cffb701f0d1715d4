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


def test_setdefault() -> None:
    """A default counts as set only if the key was missing."""
    found = Newest[str, int](2)
    found["a"] = 1
    found["b"] = 2
    assert found.setdefault("a", 3) == 1
    assert found.setdefault("c", 4) == 4
    assert dict(found) == {"b": 2, "c": 4}
