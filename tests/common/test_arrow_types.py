"""Columns are kept as types that every client and plan understands; what cannot be checked is refused."""

import pyarrow as pa
import pytest

from flightllm.common.arrow_types import elements, is_list, plain_bytes, with_plain_types
from flightllm.errors import FlightLLMError, InvalidInputError, UnsupportedError

RUNS = pa.run_end_encoded(pa.int32(), pa.string())
UNION = pa.dense_union([pa.field("a", pa.large_string())])


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (pa.int8(), pa.int8()),
        (pa.string_view(), pa.string()),
        (pa.large_string(), pa.string()),
        (pa.binary_view(), pa.binary()),
        (pa.large_binary(), pa.binary()),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.uuid(), pa.binary(16)),
        (pa.list_(pa.json_()), pa.list_(pa.string())),
        (pa.large_list(pa.large_list(pa.large_string())), pa.list_(pa.list_(pa.string()))),
        (pa.list_(pa.string_view(), 2), pa.list_(pa.string(), 2)),
        (pa.struct([pa.field("x", pa.large_binary(), nullable=False)]), pa.struct([pa.field("x", pa.binary(), False)])),
        (
            pa.map_(pa.large_string(), pa.field("value", pa.large_list(pa.int8()), nullable=False), keys_sorted=True),
            pa.map_(pa.string(), pa.field("value", pa.list_(pa.int8()), nullable=False), keys_sorted=True),
        ),
    ],
    ids=str,
)
def test_types_become_plain(kind: pa.DataType, plain: pa.DataType) -> None:
    """A type has one layout at any depth; whether it can be NULL stays, metadata do not."""
    given = pa.schema([pa.field("c", kind, nullable=False, metadata={"a": "b"})], metadata={"c": "d"})
    kept = with_plain_types(given)
    assert kept.equals(pa.schema([pa.field("c", plain, nullable=False)]), check_metadata=True)
    assert with_plain_types(kept).equals(kept, check_metadata=True)


@pytest.mark.parametrize(
    ("kind", "error", "said"),
    [
        *(
            (kind, InvalidInputError, "run-end encoded")
            for kind in (
                RUNS,
                pa.list_(RUNS),
                pa.list_(RUNS, 2),
                pa.list_view(RUNS),
                pa.struct([("a", pa.large_list(RUNS))]),
                pa.map_(pa.string(), pa.struct([("a", RUNS)])),
                pa.dictionary(pa.int8(), RUNS),
                pa.sparse_union([pa.field("a", RUNS)]),
                pa.opaque(pa.list_(RUNS), "type", "vendor"),
            )
        ),
        (pa.list_view(pa.int8()), InvalidInputError, "a list view"),
        (pa.opaque(pa.list_(pa.large_list_view(pa.int8())), "type", "vendor"), InvalidInputError, "a list view"),
        (pa.list_(UNION), UnsupportedError, "dense_union"),
    ],
    ids=str,
)
def test_types_that_are_refused(kind: pa.DataType, error: type[FlightLLMError], said: str) -> None:
    """A column of a type that no table has is refused by name, however deep inside another type it is."""
    with pytest.raises(error, match=f"column 'c' .*{said}"):
        with_plain_types(pa.schema([("c", kind)]))


def test_unions_stay_where_they_may() -> None:
    """A value may come as a union, but not with what cannot be checked inside."""
    schema = pa.schema([("c", pa.list_(UNION))])
    assert with_plain_types(schema, unions=True) == schema
    with pytest.raises(InvalidInputError, match="run-end encoded"):
        with_plain_types(pa.schema([("c", pa.sparse_union([pa.field("a", RUNS)]))]), unions=True)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["ab", None, "x" * 50, ""] * 25, pa.string_view()),
        pa.array([b"ab", None, b"x" * 50, b""] * 25, pa.binary_view()),
        pa.array(["ab", None, "x" * 50, ""] * 25).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 0, 0, 0] * 25), pa.array([b"x" * 90], pa.binary(90))),
        pa.array([["ab", "x" * 50], None, [], ["y"]] * 25, pa.list_(pa.string_view())),
        pa.array([["ab", "x" * 50], ["a", "b"]] * 50, pa.list_(pa.dictionary(pa.int8(), pa.string()), 2)),
        pa.array([[("k", "x" * 50)], [], None, [("k", "y"), ("l", "z")]] * 25, pa.map_(pa.string(), pa.string())),
        pa.array([{"a": "x" * 50, "b": 1}, {"a": "", "b": 2}] * 50),
        pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}", "[1]"] * 50)),
        pa.array(range(100)),
    ],
    ids=lambda column: str(column.type),
)
def test_room_of_plain_types(column: pa.Array) -> None:
    """The room is known before the values are written out, also of a part of a column."""
    whole = pa.record_batch({"c": column})
    for batch in (whole, whole.slice(30, 10), whole.slice(30, 0)):
        plain = batch.cast(with_plain_types(batch.schema))
        written = pa.concat_batches([plain, plain]).nbytes / 2  # a copy, of what the part has alone
        assert written * 0.9 - 10 <= plain_bytes(batch) <= written * 1.25 + 10


def test_few_bytes_for_many_values() -> None:
    """What takes no room, or that of one value, counts by what it stands for."""
    huge = pa.DictionaryArray.from_arrays(pa.array([0] * 4_000, pa.int8()), pa.array(["x" * 1_000_000]))
    assert plain_bytes(pa.record_batch({"c": huge})) > 4_000_000_000
    views = pa.array(["x" * 1_000_000, *[""] * 60], pa.string_view())
    assert plain_bytes(pa.record_batch({"c": pa.DictionaryArray.from_arrays([0] * 4_000, views)})) > 4_000_000_000
    assert plain_bytes(pa.record_batch({"c": pa.nulls(3_000_000)})) == 3_000_000
    nulls = pa.Array.from_buffers(pa.null(), 2_000_000_000, [None])
    assert elements(nulls) == 2_000_000_000
    assert elements(pa.FixedSizeListArray.from_arrays(nulls, 2_000_000_000)) == 2_000_000_001


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int8()), pa.list_(pa.int8(), 2), pa.large_list(pa.int8()), pa.list_view(pa.int8())], ids=str
)
def test_each_layout_of_a_list_is_a_list(kind: pa.DataType) -> None:
    """Lists of any layout are lists; maps and structs of lists are not."""
    assert is_list(kind)
    assert not is_list(pa.map_(pa.string(), kind))
    assert not is_list(pa.struct([("l", kind)]))
