"""Uploads are checked before anything reads them."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from flightllm.errors import InvalidInputError, LimitExceededError
from flightllm.flight.uploads import Upload


class Reader:
    """What a DoPut gives: a schema and chunks."""

    def __init__(self, *batches: pa.RecordBatch) -> None:
        self.schema = batches[0].schema
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        return (SimpleNamespace(data=batch) for batch in self._batches)


def test_types_become_plain() -> None:
    """Views, large texts and dictionaries arrive as what every client and plan understands."""
    batch = pa.record_batch(
        {
            "view": pa.array(["a"], pa.string_view()),
            "large": pa.array(["b"], pa.large_string()),
            "dictionary": pa.array(["c"]).dictionary_encode(),
            "list": pa.array([["d"]], pa.large_list(pa.large_string())),
            "struct": pa.array([{"x": b"e"}], pa.struct([("x", pa.large_binary())])),
            "fixed": pa.array([["f"]], pa.list_(pa.large_string(), 1)),
            "map": pa.array([[("h", "i")]], pa.map_(pa.large_string(), pa.large_string())),
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
    ]
    assert table.to_pylist() == batch.to_pylist()


def test_what_cannot_be_checked_is_refused() -> None:
    """DataFusion's Arrow reads run ends without checks, and pyarrow cannot check list views."""
    column = pa.RunEndEncodedArray.from_arrays([1], ["a"])
    with pytest.raises(InvalidInputError, match="'c' is run-end encoded"):
        Upload(Reader(pa.record_batch({"c": column})), 10_000)
    with pytest.raises(InvalidInputError, match="'c' is a list view"):
        Upload(Reader(pa.record_batch({"c": pa.array([[1]], pa.list_view(pa.int8()))})), 10_000)


def test_malformed_data_is_refused() -> None:
    """Data that only a full check finds bad, here text that is not UTF-8, goes no further."""
    offsets = pa.py_buffer((0).to_bytes(4, "little") + (2).to_bytes(4, "little"))
    buffers = [None, offsets, pa.py_buffer(b"\xff\xfe")]
    bad = pa.Array.from_buffers(pa.string(), 1, buffers)
    with pytest.raises(InvalidInputError, match="not valid Arrow"):
        Upload(Reader(pa.record_batch({"c": bad})), 10_000).read_all()


def test_size_is_bounded() -> None:
    """Beyond the limit the upload stops with its configuration key."""
    batch = pa.record_batch({"a": range(100)})
    with pytest.raises(LimitExceededError, match=r"limits\.upload_bytes = 1000"):
        Upload(Reader(batch, batch), 1_000).read_all()
