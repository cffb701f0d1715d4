"""Uploads: modes, fitting columns, and what is refused."""

import threading
from typing import Any

import pyarrow as pa
import pytest

from flightllm.catalog import Catalog
from flightllm.config import LimitsConfig
from flightllm.errors import InvalidInputError, LimitExceededError, NotFoundError, SqlError
from tests.catalogs import ENCODED, ingest, read, run


def test_ingest_modes(catalog: Catalog) -> None:
    """Create refuses an existing table, append needs one, replace and create_append take both; order is kept."""
    assert ingest(catalog, "t", {"a": [3, 1]}) == 2
    with pytest.raises(InvalidInputError, match="exists"):
        ingest(catalog, "t", {"a": [1]})
    assert ingest(catalog, "t", {"a": [2]}, "append") == 1
    assert ingest(catalog, "t", {"a": [5]}, "create_append") == 1
    assert read(catalog, "SELECT * FROM t") == [{"a": 3}, {"a": 1}, {"a": 2}, {"a": 5}]
    assert ingest(catalog, "t", {"b": ["x"]}, "replace") == 1
    assert read(catalog, "SELECT * FROM t") == [{"b": "x"}]
    assert ingest(catalog, "Exact Name", {"a": [1]}, "create_append") == 1
    assert read(catalog, 'SELECT * FROM "Exact Name"') == [{"a": 1}]
    with pytest.raises(NotFoundError, match="no table 'u'"):
        ingest(catalog, "u", {"a": [1]}, "append")
    with pytest.raises(InvalidInputError, match="unknown mode"):
        ingest(catalog, "t", {"a": [1]}, "upsert")


def test_empty_upload_makes_a_table(catalog: Catalog) -> None:
    """A schema without rows is a table that rows can be added to."""
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), ("s", pa.large_string())])
    assert catalog.ingest("t", schema, []) == 0
    assert catalog.table("t").schema == pa.schema([pa.field("a", pa.int64(), nullable=False), ("s", pa.string())])
    assert run(catalog, "INSERT INTO t VALUES (1, 'x')") == 1
    with pytest.raises(SqlError, match="non-nullable"):
        run(catalog, "INSERT INTO t VALUES (NULL, 'x')")


def test_append_casts_or_names_the_column(catalog: Catalog) -> None:
    """Columns are matched by name and cast without loss; whatever does not fit is refused by name."""
    ingest(catalog, "t", {"a": pa.array([1], pa.int64()), "s": ["x"]})
    assert (
        ingest(catalog, "t", {"s": ENCODED["code"].combine_chunks(), "a": pa.array([2, 3], pa.int8())}, "append") == 2
    )
    for columns, message in (
        ({"a": ["no"], "s": ["x"]}, "column 'a'"),
        ({"a": [1.5], "s": ["x"]}, "column 'a'"),
        ({"a": [1], "s": ["x"], "z": [1]}, "no column 'z'"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            ingest(catalog, "t", columns, "append")
    assert read(catalog, "SELECT count(*) AS n FROM t") == [{"n": 3}]


def test_append_without_a_column(catalog: Catalog) -> None:
    """A column that the upload lacks is NULL, or what CREATE TABLE says; one that must not be NULL is named."""
    run(catalog, "CREATE TABLE t (a BIGINT NOT NULL, s VARCHAR, d INT DEFAULT 7)")
    assert ingest(catalog, "t", {"a": [1, 2]}, "append") == 2
    assert ingest(catalog, "t", {"d": [1], "a": [3]}, "append") == 1
    assert read(catalog, "SELECT * FROM t ORDER BY a") == [
        {"a": 1, "s": None, "d": 7},
        {"a": 2, "s": None, "d": 7},
        {"a": 3, "s": None, "d": 1},
    ]
    with pytest.raises(
        InvalidInputError, match="no column 'a', which must not be NULL; the table's columns are a, s, d"
    ):
        ingest(catalog, "t", {"s": ["x"]}, "append")


def test_bad_uploads(catalog: Catalog) -> None:
    """Corrupt, oversized and unsupported uploads are refused, and no table appears."""
    run_ends = pa.RunEndEncodedArray.from_arrays([2], pa.array(["x"]))
    with pytest.raises(InvalidInputError, match="column 'r' is run-end encoded"):
        ingest(catalog, "t", {"r": run_ends})
    corrupt = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    with pytest.raises(InvalidInputError, match="corrupt"):
        ingest(catalog, "t", {"s": corrupt})
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(InvalidInputError, match="'a'"):
        catalog.ingest("t", twice.schema, [twice])
    with pytest.raises(LimitExceededError, match="upload_bytes = 10"):
        ingest(Catalog(LimitsConfig(upload_bytes=10)), "t", {"a": [1, 2, 3]})
    with pytest.raises(LimitExceededError, match="upload_bytes = 1,000"):  # what is written, though it takes no bytes
        ingest(Catalog(LimitsConfig(upload_bytes=1_000)), "t", {"a": pa.nulls(2_000)})
    with pytest.raises(LimitExceededError, match="upload_bytes = 1,000"):
        ingest(Catalog(LimitsConfig(upload_bytes=1_000)), "t", {"a": pa.array(["x" * 100] * 20).dictionary_encode()})
    assert catalog.tables()[0].name.schema == "system"


def test_replacing_while_reading(catalog: Catalog) -> None:
    """Readers in other threads always see one whole version of a table that is being replaced."""
    ingest(catalog, "t", {"a": [0] * 10})
    wrong: list[dict[str, Any]] = []

    def read_often() -> None:
        for _ in range(30):
            rows = read(catalog, "SELECT count(*) AS n, count(DISTINCT a) AS versions FROM t")
            if rows != [{"n": 10, "versions": 1}]:
                wrong.extend(rows)

    readers = [threading.Thread(target=read_often) for _ in range(4)]
    for reader in readers:
        reader.start()
    for version in range(30):
        ingest(catalog, "t", {"a": [version] * 10}, "replace")
    for reader in readers:
        reader.join()
    assert wrong == []
