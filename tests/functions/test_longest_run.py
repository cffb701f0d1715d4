"""The longest run of equal texts in a list."""

import pyarrow as pa

from flightllm.functions.longest_run import longest_run


def test_places() -> None:
    """Of equally long runs the first counts; runs end with their list; NULL and empty lists have no place."""
    lists = [["a", "b", "b", "c"], ["c", "c"], None, ["c", "a"], [], ["a", "a", "b", "c", "c", "c"], [""]]
    found = longest_run(pa.array(lists, pa.list_(pa.string())))
    assert found.to_pylist() == [2, 1, None, 1, None, 4, 1]


def test_a_part_of_an_array() -> None:
    """A slice and an array without any text are read as well."""
    lists = pa.array([["x"], ["a", "b", "b"], None, ["c"]], pa.list_(pa.string()))
    assert longest_run(lists.slice(1, 2)).to_pylist() == [2, None]
    assert longest_run(lists.slice(2, 1)).to_pylist() == [None]
    assert longest_run(lists.slice(0, 0)).to_pylist() == []
