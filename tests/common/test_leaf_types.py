"""Types with other types for the values in them."""

import pyarrow as pa

from flightllm.common.leaf_types import in_microseconds, with_leaves


def test_any_depth() -> None:
    """Lists of each kind, structs and maps keep their own form."""
    ns, us = pa.timestamp("ns", "UTC"), pa.timestamp("us", "UTC")
    for kinds in (
        [pa.list_(pa.field("item", one, nullable=False)) for one in (ns, us)],
        [pa.large_list(one) for one in (ns, us)],
        [pa.list_(one, 2) for one in (ns, us)],
        [pa.map_(pa.string(), pa.struct([("a", pa.list_(one)), ("b", pa.int8())])) for one in (ns, us)],
    ):
        assert in_microseconds(kinds[0]) == kinds[1] == in_microseconds(kinds[1])


def test_leaves() -> None:
    """Only types that hold no others are changed."""
    assert with_leaves(pa.list_(pa.int8()), lambda _: pa.string()) == pa.list_(pa.string())
    assert with_leaves(pa.int8(), lambda _: pa.string()) == pa.string()
