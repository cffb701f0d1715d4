"""Lists that are texts, as columns of their elements."""

import pyarrow as pa
import pytest

from flightllm.functions.call import ELEMENT_END
from flightllm.operators.elements import elements, places


def lists(*rows: list[str] | None) -> pa.Array:
    """Return lists as they are passed."""
    return pa.array([None if row is None else ELEMENT_END.join(row) for row in rows], pa.string())


def test_elements() -> None:
    """Each place has a column; a list that ends before has NULL there, an empty one an empty text in the first."""
    given = lists(["a", "b", "c"], None, ["d"], [], ["e", "", "f"])
    assert places(given) == 3
    assert [column.to_pylist() for column in elements(given, 3)] == [
        ["a", None, "d", "", "e"],
        ["b", None, None, None, ""],
        ["c", None, None, None, "f"],
    ]


@pytest.mark.parametrize("rows", [(), (None,), ([],), (["a"], None)])
def test_one_place_at_least(rows: tuple[list[str] | None, ...]) -> None:
    """No list is longer than one element."""
    assert places(lists(*rows)) == 1
    assert [len(column) for column in elements(lists(*rows), 1)] == [len(rows)]


def test_a_slice_has_its_own_rows() -> None:
    """Offsets of a slice do not begin at zero."""
    given = lists(["a", "b"], ["c"], ["d", "e"])[1:]
    assert [column.to_pylist() for column in elements(given, 2)] == [["c", "d"], [None, "e"]]


def test_long_lists_keep_their_rest_together() -> None:
    """The last place takes what is left, as a list."""
    given = lists([str(number) for number in range(100)])
    assert places(given) == 64
    columns = [column.to_pylist()[0] for column in elements(given, 64)]
    assert columns[:3] == ["0", "1", "2"]
    assert columns[-1].split(ELEMENT_END) == [str(number) for number in range(63, 100)]
