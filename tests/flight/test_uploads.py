"""Uploads are checked before anything reads them."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from flightllm.errors import InvalidInputError, LimitExceededError
from flightllm.flight.uploads import Upload

RUNS = pa.run_end_encoded(pa.int32(), pa.string())


class Reader:
    """What a DoPut gives: a schema and chunks."""

    def __init__(self, *batches: pa.RecordBatch) -> None:
        self.schema = batches[0].schema
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        return (SimpleNamespace(data=batch) for batch in self._batches)


def test_types_become_plain() -> None:
    """Views, large layouts, dictionaries and extension types arrive as what every client and plan understands."""
    batch = pa.record_batch(
        {
            "view": pa.array(["a"], pa.string_view()),
            "large": pa.array(["b"], pa.large_string()),
            "dictionary": pa.array(["c"]).dictionary_encode(),
            "list": pa.array([["d"]], pa.large_list(pa.large_string())),
            "struct": pa.array([{"x": b"e"}], pa.struct([("x", pa.large_binary())])),
            "fixed": pa.array([["f"]], pa.list_(pa.large_string(), 1)),
            "map": pa.array([[("h", "i")]], pa.map_(pa.large_string(), pa.large_string())),
            "extension": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}"])),
        }
    )
    table = Upload(Reader(batch), 10_000).read_all()
    assert table.schema.types == [
        pa.string(),
        pa.string(),
        pa.string(),
        pa.list_(pa.string()),
        pa.struct([("x", pa.binary())]),
        pa.list_(pa.string(), 1),
        pa.map_(pa.string(), pa.string()),
        pa.string(),
    ]
    assert table.to_pylist() == batch.to_pylist()


@pytest.mark.parametrize(
    ("kind", "said"), [(pa.list_(RUNS), "'c' is run-end encoded"), (pa.list_view(pa.int8()), "'c' is a list view")]
)
def test_types_that_cannot_be_checked_are_refused(kind: pa.DataType, said: str) -> None:
    """DataFusion's Arrow reads run ends without checks, pyarrow list views: no such column comes in."""
    with pytest.raises(InvalidInputError, match=said):
        Upload(SimpleNamespace(schema=pa.schema([("c", kind)])), 10_000)


def _offsets(*values: int) -> pa.Buffer:
    return pa.py_buffer(b"".join(value.to_bytes(4, "little") for value in values))


def _no_text() -> pa.Array:
    """Return a text that is not UTF-8, which only a full check finds."""
    return pa.Array.from_buffers(pa.string(), 1, [None, _offsets(0, 2), pa.py_buffer(b"\xff\xfe")])


def _entry(value: pa.Array) -> pa.Array:
    fields = [pa.field("key", pa.string(), nullable=False), pa.field("value", value.type)]
    return pa.StructArray.from_arrays([pa.array(["k"]), value], fields=fields)


def _beyond() -> pa.Array:
    """Return a dictionary's index that it has no value for."""
    return pa.DictionaryArray.from_arrays(pa.array([7], pa.int8()), pa.array(["a"]), safe=False)


@pytest.mark.parametrize(
    "column",
    [
        _no_text(),
        pa.StructArray.from_arrays([_no_text()], ["a"]),
        pa.Array.from_buffers(pa.list_(pa.string()), 1, [None, _offsets(0, 1)], children=[_no_text()]),
        pa.Array.from_buffers(pa.list_(pa.string(), 1), 1, [None], children=[_no_text()]),
        pa.Array.from_buffers(
            pa.map_(pa.string(), pa.string()), 1, [None, _offsets(0, 1)], children=[_entry(_no_text())]
        ),
        pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), _no_text(), safe=False),
        _beyond(),
        pa.Array.from_buffers(pa.list_(_beyond().type), 1, [None, _offsets(0, 1)], children=[_beyond()]),
        pa.Array.from_buffers(pa.list_(pa.string()), 2, [None, _offsets(0, 9, 1)], children=[pa.array(["a"])]),
    ],
    ids=["text", "struct", "list", "fixed list", "map", "dictionary", "index", "index in list", "offsets"],
)
def test_malformed_data_is_refused(column: pa.Array) -> None:
    """Data that only a full check finds bad goes no further, however deep inside other data."""
    with pytest.raises(InvalidInputError, match="not valid Arrow"):
        Upload(Reader(pa.record_batch({"c": column})), 10_000).read_all()


def test_size_is_bounded() -> None:
    """Beyond the limit the upload stops with its configuration key."""
    batch = pa.record_batch({"a": range(100)})
    with pytest.raises(LimitExceededError, match=r"\[limits\] upload_bytes = 1,000"):
        Upload(Reader(batch, batch), 1_000).read_all()


def _nulls(count: int) -> pa.Array:
    return pa.Array.from_buffers(pa.null(), count, [None])


def _same_view() -> pa.Array:
    """Return ten thousand views of the same megabyte."""
    (_, view, text) = pa.array(["x" * 1_000_000], pa.string_view()).buffers()
    return pa.Array.from_buffers(pa.string_view(), 10_000, [None, pa.py_buffer(view.to_pybytes() * 10_000), text])


@pytest.mark.parametrize(
    "column",
    [
        pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int16()), pa.array(["x" * 1_000_000])),
        _same_view(),
        _nulls(10**15),
        pa.FixedSizeListArray.from_arrays(_nulls(2 * 10**9), 2 * 10**9),
    ],
    ids=["dictionary", "views", "nulls", "list of nulls"],
)
def test_what_little_stands_for_is_bounded(column: pa.Array) -> None:
    """The limit is of the values, and holds before they are written out or checked one by one."""
    with pytest.raises(LimitExceededError, match=r"\[limits\] upload_bytes = 100,000,000"):
        Upload(Reader(pa.record_batch({"c": column})), 100_000_000).read_all()
